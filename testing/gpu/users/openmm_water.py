"""A box of water in OpenMM: energies, minimization and Langevin dynamics, with PME.

`openmm_water.py [STEPS [PLATFORM]]`. OpenMM adds up in any order, so figures are told as far as
they are the same each time.
"""
import contextlib
import ctypes
import pathlib
import sys

with contextlib.suppress(ImportError):
    # OpenMM looks for these where it was installed itself.
    import nvidia

    for folder in nvidia.__path__:
        for name in ("libnvJitLink.so.13", "libnvrtc.so.13", "libcufft.so.12"):
            for library in pathlib.Path(folder).glob(f"*/lib/{name}"):
                ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)

import openmm as mm
from openmm import app, unit

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
name = sys.argv[2] if len(sys.argv) > 2 else "CUDA"
field = app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")
model = app.Modeller(app.Topology(), [] * unit.nanometer)
model.addSolvent(field, boxSize=mm.Vec3(4, 4, 4) * unit.nanometer)
system = field.createSystem(
    model.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.9 * unit.nanometer,
    constraints=app.HBonds,
)
atoms = model.topology.getNumAtoms()
print("atoms", atoms)


def potential(run):
    return run.context.getState(energy=True).getPotentialEnergy()._value


for precision in ("single", "mixed"):
    integrator = mm.LangevinMiddleIntegrator(300, 10, 0.002)
    integrator.setRandomNumberSeed(7)
    platform = mm.Platform.getPlatformByName(name)
    run = app.Simulation(model.topology, system, integrator, platform, {"Precision": precision})
    run.context.setPositions(model.positions)
    print(name, precision, f"at first {potential(run):.5g} kJ/mol")
    run.minimizeEnergy(maxIterations=30)
    print(name, precision, f"minimized, below -80000: {potential(run) < -8e4}")
    run.context.setVelocitiesToTemperature(300, 3)
    run.step(steps)
    state = run.context.getState(energy=True)
    kelvin = 2 * state.getKineticEnergy()._value / (atoms * 2 * 0.0083145)
    print(name, precision, f"after {steps} steps between 250 and 350 K: {250 < kelvin < 350}")
    print(name, precision, f"bound: {potential(run) < -7e4}")
