"""Gathers the suites that `suites.py` runs into one archive; none of them is kept here.

    python3 testing/gpu/fetch_suites.py --out suites.tgz [--checkout cupy=FOLDER ...]
                                        [--add FOLDER ...]

What is taken from where is `SOURCES` below. A source comes from a checkout that `--checkout` names,
or else is cloned from GitHub at the release that fits the machine's own (`--ref pytorch=v2.11.0`).
A checkout may lack files (a partial clone); what needs those fails alike on both sides.
`--build 90` builds the programs that `make` builds here, with the nvcc that is here, for devices of
that compute capability; the machine with the GPU then only runs them.
numba-cuda's tests and Warp's come with their packages and need nothing; those of cuda-python need
its own release of cuda.core and cuda.bindings, unpacked in `cuda-python/site`. `--add` puts further
folders in: one with a `programs.json` (docs/suites.md) makes a suite of programs, `extra/` one of
pytest files, `python/` holds packages the machine lacks.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

# Name: repository, release, folder in the archive, what is taken.
SOURCES = {
    "pytorch": (
        "https://github.com/pytorch/pytorch",
        "v2.11.0",
        "pytorch",
        ["test/test_*.py", *("test/" + d for d in ("nn", "optim", "autograd", "expect", "inductor",
                                                   "functorch", "profiler", "distributions"))],
    ),
    "distributed": (
        "https://github.com/pytorch/pytorch",
        "v2.11.0",
        "pytorch-distributed",
        ["test/distributed"],
    ),
    "accelerate": (
        "https://github.com/huggingface/accelerate",
        "v1.14.0",
        "accelerate",
        ["tests", "src", "examples"],
    ),
    "deepspeed": (
        "https://github.com/deepspeedai/DeepSpeed",
        "v0.19.6",
        "deepspeed",
        ["tests", "deepspeed", "accelerator", "csrc", "op_builder", "version.txt"],
    ),
    "torchao": (
        "https://github.com/pytorch/ao", "v0.18.0", "torchao", ["test", "torchao", "version.txt"]
    ),
    "cupy": (
        "https://github.com/cupy/cupy",
        "v14.2.0",
        "cupy",
        ["tests/conftest.py", "tests/cupy_tests"],
    ),
    "cuda-python": (
        "https://github.com/NVIDIA/cuda-python",
        "cuda-core-v1.1.1",
        "cuda-python",
        [
            "cuda_core/tests",
            "cuda_core/examples",
            "cuda_bindings/tests",
            "cuda_bindings/examples",
            "cuda_python_test_helpers",
        ],
    ),
    "jax": (
        "https://github.com/jax-ml/jax",
        "jax-v0.11.0",
        "jax",
        ["tests/*_test.py", "tests/filecheck", "tests/config", "tests/testdata"],
    ),
    "pycuda": ("https://github.com/inducer/pycuda", "v2026.1", "pycuda", ["test/test_*.py"]),
    "nvmath": (
        "https://github.com/NVIDIA/nvmath-python",
        "v0.9.0",
        "nvmath",
        ["tests/conftest.py", "tests/nvmath_tests"],
    ),
    "taichi": (
        "https://github.com/taichi-dev/taichi",
        "v1.7.4",
        "taichi",
        ["tests/__init__.py", "tests/test_utils.py", "tests/python"],
    ),
    "drjit": ("https://github.com/mitsuba-renderer/drjit", "v1.5.0", "drjit", ["tests/*.py"]),
    "kvikio": (
        "https://github.com/rapidsai/kvikio", "v26.10.00a", "kvikio", ["python/kvikio/tests"]
    ),
    "tilelang": ("https://github.com/tile-ai/tilelang", "v0.1.9", "tilelang", ["testing/python"]),
    "triton": (
        "https://github.com/triton-lang/triton",
        "v3.6.0",
        "triton",
        ["python/test", "python/triton_kernels/tests", "python/triton_kernels/triton_kernels"],
    ),
    "flaggems": (
        "https://github.com/FlagOpen/FlagGems", "master", "flaggems", ["tests", "src/flag_gems"]
    ),
    "liger": ("https://github.com/linkedin/Liger-Kernel", "v0.8.2", "liger", ["test", "src"]),
    "cccl": (
        "https://github.com/NVIDIA/cccl", "python-0.4.5", "cccl", ["python/cuda_cccl/tests"]
    ),
    "rmm": ("https://github.com/rapidsai/rmm", "main", "rmm", ["python/rmm/rmm/tests"]),
    "bitsandbytes": (
        "https://github.com/bitsandbytes-foundation/bitsandbytes",
        "0.50.1",
        "bitsandbytes",
        ["tests"],
    ),
    "tensordict": ("https://github.com/pytorch/tensordict", "v0.13.0", "tensordict", ["test"]),
    "torchrl": ("https://github.com/pytorch/rl", "v0.13.3", "torchrl", ["test"]),
    "fla": ("https://github.com/fla-org/flash-linear-attention", "v0.5.2", "fla", ["tests"]),
    "lightning": (
        "https://github.com/Lightning-AI/pytorch-lightning",
        "2.6.5",
        "lightning",
        ["tests/tests_pytorch", "tests/tests_fabric"],
    ),
    "geometric": (
        "https://github.com/pyg-team/pytorch_geometric", "2.8.0.post1", "geometric", ["test"]
    ),
    "kornia": (
        "https://github.com/kornia/kornia", "v0.8.3", "kornia", ["conftest.py", "testing", "tests"]
    ),
    "equinox": ("https://github.com/patrick-kidger/equinox", "v0.13.8", "equinox", ["tests"]),
    "optax": ("https://github.com/google-deepmind/optax", "v0.2.8", "optax", ["optax"]),
    "flax": ("https://github.com/google/flax", "v0.12.7", "flax", ["tests"]),
    "library-samples": (
        "https://github.com/NVIDIA/CUDALibrarySamples",
        "main",
        "library-samples",
        ["cuBLAS", "cuFFT", "cuRAND", "cuSOLVER", "cuSPARSE"],
    ),
    "cuda-samples": (
        "https://github.com/NVIDIA/cuda-samples",
        "v13.0",
        "cuda-samples",
        ["Common/*.h*", "Common/*.cpp", "Common/data", "cmake", "test_args.json"]
        + ["Samples/[0-6]_*/*"]
        + [f":(exclude)Samples/*/{folder}/*" for folder in ("doc", "segmentationTreeThrust")],
    ),
    "hashcat": ("https://github.com/hashcat/hashcat", "v6.2.6", "hashcat", ["."]),
    # A sixth of the programs look for headers or data in the folder of another model's variant.
    "hecbench": (
        "https://github.com/zjin-lcf/HeCBench",
        "master",
        "hecbench",
        ["src/*-cuda/*", "src/include", "src/data"]
        + [f"src/{x}-sycl/*" for x in (
            "urng boxfilter bfs debayer deredundancy dxtc2 extend2 geodesic inversek2j medianfilter"
            " minibude minimap2 sobel spgeam spsort sptrsv ss tonemapping wordcount").split()]
        + [f"src/{x}-omp/*" for x in ("easyWave", "openmp", "testSNAP")],
    ),
}
# What needs a display, or libraries that are seldom there.
DISPLAYS = re.compile(
    r"helper_gl\.h|\bGL/|\bEGL/|glfw|vulkan|d3d1|nvscibuf|FreeImage|mpi\.h", re.IGNORECASE
)


def git(*args, **more):
    r = subprocess.run(["git", *map(str, args)], **more)
    if r.returncode:
        sys.exit(f"git {' '.join(map(str, args))[:200]} failed")
    return r


def held(checkout, ref, files):
    """Those of `files` whose contents the checkout has."""
    env = dict(os.environ, GIT_NO_LAZY_FETCH="1")
    asked = "".join(f"{ref}:{file}\n" for file in files)
    said = git("-C", checkout, "cat-file", "--batch-check", input=asked, text=True, env=env,
               capture_output=True).stdout.splitlines()
    have = [file for file, line in zip(files, said) if not line.endswith(" missing")]
    if len(have) < len(files):
        print(f"{checkout}: {len(files) - len(have)} files are not there")
    return have


def samples(tree, _):
    """The list of programs (docs/suites.md) of CUDALibrarySamples: examples of one file each."""
    libraries = "-lcublas -lcublasLt -lcusolver -lcusparse -lcufft -lcurand".split()
    programs = []
    for file in sorted(tree.rglob("*_example*.c*")):
        path = file.relative_to(tree)
        # Those for several GPUs need more than one; a folder `src` holds parts of a program.
        if "mg" in file.stem.lower() or "src" in path.parts:
            continue
        nvcc = ["nvcc", "-O1", "-arch=native", "-I", f"{{src}}/{path.parts[0]}/utils"]
        nvcc += ["-I", "{src}/" + str(path.parent)]
        nvcc += ["-std=c++17", "-x", "cu"] if file.suffix != ".c" else []
        build = [*nvcc, "{src}/" + str(path), "-o", "{out}/it", *libraries]
        name = "-".join(path.with_suffix("").parts)
        programs.append(
            {"name": name, "cwd": str(path.parent), "build": [build], "run": ["{out}/it"]}
        )
    (tree / "programs.json").write_text(json.dumps(programs, indent=1))


def cuda_samples(tree, _):
    """The same of cuda-samples. Each is built by its own CMakeLists.txt in its folder `build`, from
    where it finds its data and modules."""
    arguments = json.loads((tree / "test_args.json").read_text())
    programs = []
    for rules in sorted(tree.glob("Samples/*/*/CMakeLists.txt")):
        sample = rules.parent
        sources = [f for f in sample.rglob("*") if f.suffix in (".cu", ".cpp", ".c", ".h", ".cuh")]
        of = arguments.get(sample.name, {})
        if of.get("skip") or any(DISPLAYS.search(f.read_text(errors="replace")) for f in sources):
            shutil.rmtree(sample)
            continue
        # One kind of device instead of nine: each takes as long again.
        text = re.sub(r"set\(CMAKE_CUDA_ARCHITECTURES [^)]*\)", "", rules.read_text())
        rules.write_text(text)
        build = sample / "build"
        build.mkdir()
        (build / ".keep").touch()
        cmake = ["cmake", "-S", "..", "-B", ".", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
        of = of.get("runs", [of])[0]
        programs.append(
            {
                "name": f"sample-{sample.name}",
                "cwd": str(build.relative_to(tree)),
                "build": [[*cmake, "-DCMAKE_CUDA_ARCHITECTURES={arch}"], ["ninja"]],
                "run": [f"./{sample.name}", *of.get("args", [])],
            }
        )
    (tree / "programs.json").write_text(json.dumps(programs, indent=1))


def hecbench(tree, built_for):
    """The same of HeCBench: a Makefile each, whose target `run` says what to run. What asks for
    MPI, Python, or a library that is not here cannot be built and is left out."""
    arch = f"ARCH=sm_{built_for or '{arch}'}"
    folders = [f.parent for f in sorted(tree.glob("src/*-cuda/Makefile"))]

    def make(folder, *words):
        try:
            return subprocess.run(["make", "-s", "--no-print-directory", arch, *words], cwd=folder,
                                  capture_output=True, text=True, errors="replace", timeout=400)
        except subprocess.TimeoutExpired:
            return None

    def entry(folder):
        build = make(folder) if built_for else None
        if built_for and (build is None or build.returncode):
            return f"{folder.name}: not built"
        said = make(folder, "-n", "run").stdout.replace("\\\n", " ")
        runs = re.compile(r"\s*(\./|build/bin/|cd \S+ &&)").match
        run = [line for line in said.splitlines() if runs(line)]
        if not run or re.search(r"\bpython|\bmpi", "".join(run)):
            return f"{folder.name}: nothing to run"
        # Most say last how often to repeat what is timed.
        fewer = lambda m: f" {max(10, int(m[1]) // 20)}" if int(m[1]) >= 100 else m[0]
        run = [re.sub(r" (\d+)\s*$", fewer, line) for line in run]
        for made in folder.rglob("*.o") if built_for else ():
            made.unlink()
        program = {"name": f"hec-{folder.name.removesuffix('-cuda')}", "seconds": 30}
        program["cwd"] = str(folder.relative_to(tree))
        program["build"] = [] if built_for else [["make", "-s", arch]]
        return program | {"run": ["sh", "-ec", "\n".join(run)]}

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if built_for else 1) as pool:
        found = list(pool.map(entry, folders))
    programs = [x for x in found if isinstance(x, dict)]
    print(f"hecbench: {len(programs)} programs;", ", ".join(x for x in found if isinstance(x, str)))
    for program in programs:
        # Braces of a shell are no places to fill in.
        program["run"][-1] = program["run"][-1].replace("{", "{{").replace("}", "}}")
    (tree / "programs.json").write_text(json.dumps(programs, indent=1))


# Kind of hash, attack, and what is to be found: fast ones and such as take time and memory.
HASHES = (
    "0 -a 3 b66bfb1350a258250266711eed498d39 ?l?l?l?l?l?l?l",
    "1000 -a 3 b4b9b02e6f09a9bd760f388b67351e2b ?l?l?l?l?l?l?l",
    "100 -a 6 3b7f56f917066300cd59492a6c78e120cfeaf71e words ?d?d",
    "1400 -a 0 789ce358955055f6032e7dce8517787e3e700adb5f69e0ada93f276c8daa05c9 words",
    "3200 -a 3 $2a$05$LhayLxezLhK1LhWvKxCyLOj0j1u.Kj0jZ0pEmm134uzrQlFvQJLF6 hashc?l?l",
    "1800 -a 0 $6$52450745$k5ka2p8bFuSmoVT1tzOyyuaREkkKBcCNqoDKzYiJL9RaE8yMnPgh2XzzF0NDrUhgrcL"
    "wg78xs1w5pJiypEdFX/ words",
    "8900 -a 3 SCRYPT:1024:1:1:MDIwMzMwNTQwNDQyNQ==:5FW+zWivLxgCWj7qLiQbeC8zaNQ+qdO0NUinvqyFcfo="
    " hashc?l?l",
)


def hashcat(tree, built_for):
    """The same of hashcat, over CUDA and over OpenCL. It keeps beside itself what it has compiled,
    so that each run has a copy of its own."""
    modules = [f"modules/module_{int(words.split()[0]):05}.so" for words in HASHES]
    make = lambda folder: ["make", "-s", "-j4", "-C", folder, "hashcat", *modules]
    build = [["cp", "-r", "{src}/.", "{out}"]]
    if built_for:
        subprocess.run(make(tree), check=True)
    else:
        build.append(make("{out}"))
    find = "./hashcat --potfile-disable --quiet --backend-ignore-$0 -m"
    lines = [
        'mine=$(mktemp -d) && trap "rm -r $mine" EXIT && cp -r {out}/. "$mine" && cd "$mine"',
        "(head -n 20000 example.dict; echo hashcat; echo 'hashcat!') > words",
        *(" ".join([find, *(f"'{word}'" for word in words.split())]) for words in HASHES),
    ]
    programs = [
        {"name": f"hashcat-{api}", "build": build, "seconds": 300,
         "run": ["sh", "-ec", "\n".join(lines), other]}
        for api, other in (("cuda", "opencl"), ("opencl", "cuda"))
    ]
    (tree / "programs.json").write_text(json.dumps(programs, indent=1))


# Name: what makes the list of programs.
LISTS = {
    "library-samples": samples,
    "cuda-samples": cuda_samples,
    "hashcat": hashcat,
    "hecbench": hecbench,
}


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", default="suites.tgz")
    p.add_argument("--only", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    p.add_argument("--checkout", action="append", default=[], metavar="NAME=FOLDER")
    p.add_argument("--ref", action="append", default=[], metavar="NAME=REF")
    p.add_argument("--build", metavar="CAPABILITY", help="build here what can be, as in 90")
    p.add_argument("--add", action="append", default=[], metavar="FOLDER")
    a = p.parse_args()
    checkouts, refs = (dict(x.split("=", 1) for x in given) for given in (a.checkout, a.ref))
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(a.out, "w:gz") as archive:
        for name in a.only:
            url, ref, folder, paths = SOURCES[name]
            ref = refs.get(name, ref)
            checkout = checkouts.get(name)
            if not checkout:
                checkout = pathlib.Path(scratch) / f"{name}-clone"
                git(
                    "clone",
                    "-q",
                    "--depth",
                    "1",
                    "--branch",
                    ref,
                    "--filter=blob:none",
                    "--no-checkout",
                    url,
                    checkout,
                )
            tree = pathlib.Path(scratch) / folder
            tree.mkdir()
            listed = git(
                "-C",
                checkout,
                "ls-files",
                "-z",
                "--with-tree",
                ref,
                "--",
                *paths,
                capture_output=True,
                text=True,
            )
            wanted = sorted(set(filter(None, listed.stdout.split("\0"))))
            if not wanted:
                sys.exit(f"{checkout} has none of {' '.join(paths)} at {ref}")
            if name in checkouts:
                wanted = held(checkout, ref, wanted)
            tar = git("-C", checkout, "archive", ref, *wanted, capture_output=True).stdout
            subprocess.run(["tar", "x", "-C", tree], input=tar, check=True)
            if name in LISTS:
                LISTS[name](tree, a.build)
            archive.add(tree, folder)
            print(f"{name}: {len(wanted)} files of {ref}")
        for folder in map(pathlib.Path, a.add):
            archive.add(folder, folder.resolve().name)
            print(f"{folder.resolve().name}: added")
    print(f"{a.out}: {pathlib.Path(a.out).stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
