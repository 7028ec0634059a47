"""Programs with several devices in one process, wherever they are: PyTorch, CuPy, JAX.

Natively on one GPU there is nothing to do; with `busbar run --server A,B` each server adds its own.
"""

import sys

DEVICES = int(sys.argv[1]) if len(sys.argv) > 1 else 2


def torch_ring():
    """A tensor goes around all devices, each of which adds to it in a stream of its own."""
    import torch

    assert torch.cuda.device_count() == DEVICES, torch.cuda.device_count()
    first = torch.arange(1 << 22, dtype=torch.float64, device="cuda:0")
    moved = first
    for lap in range(3):
        for device in [*range(1, DEVICES), 0]:
            with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
                moved = moved.to(device, non_blocking=True) + 1 + lap
                torch.cuda.current_stream().synchronize()
    assert torch.equal(moved, first + DEVICES * 6), "other numbers came around"
    peers = [torch.cuda.can_device_access_peer(0, d) for d in range(1, DEVICES)]
    return f"ring of {DEVICES}, peers {peers}"


def torch_data_parallel():
    """DataParallel against the same model on one device."""
    import torch

    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 8))
    model = model.double().cuda()
    x = torch.randn(96, 64, dtype=torch.float64, device="cuda")

    def gradients(of):
        model.zero_grad()
        loss = of(x).square().mean()
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in model.parameters())]

    alone = gradients(model)
    shared = gradients(torch.nn.DataParallel(model, list(range(DEVICES))))
    worst = max(float((a - b).abs().max()) for a, b in zip(alone, shared))
    assert worst < 1e-12, worst
    return "DataParallel gives the gradients of one device"


def cupy_devices():
    """Arrays on every device, and copies between them."""
    import cupy

    assert cupy.cuda.runtime.getDeviceCount() == DEVICES
    with cupy.cuda.Device(0):
        moved = first = cupy.arange(1 << 20, dtype=cupy.float64)
    for device in [*range(1, DEVICES), 0]:
        with cupy.cuda.Device(device):
            here = cupy.empty_like(moved)
            here.data.copy_from_device(moved.data, moved.nbytes)
            moved = here + 1
            cupy.cuda.Device(device).synchronize()
    assert bool((moved == first + DEVICES).all()), "other numbers came around"
    return f"ring of {DEVICES}"


def jax_devices():
    """Arrays on every device, and a compiled function on each."""
    import jax
    import jax.numpy as jnp

    devices = jax.devices()
    assert len(devices) == DEVICES, devices
    step = jax.jit(lambda x: x * 2 + 1)
    moved, expected = jax.device_put(jnp.arange(4096, dtype=jnp.float32), devices[0]), None
    expected = [float(v) for v in moved[:4]]
    for device in [*devices[1:], devices[0]]:
        moved = step(jax.device_put(moved, device))
        assert moved.devices() == {device}
        expected = [v * 2 + 1 for v in expected]
    assert [float(v) for v in moved[:4]] == expected, "other numbers came around"
    return f"ring of {DEVICES}"


def main():
    failed = 0
    for each in (torch_ring, torch_data_parallel, cupy_devices, jax_devices):
        try:
            print(f"{each.__name__}: ok, {each()}", flush=True)
        except ImportError as error:
            print(f"{each.__name__}: skipped: {error}", flush=True)
        except Exception as error:  # every part is tried
            failed += 1
            print(f"{each.__name__}: FAILED: {type(error).__name__}: {error}", flush=True)
    return failed


sys.exit(main())
