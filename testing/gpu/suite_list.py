"""The suites that `suites.py` runs: of which files each is, and how they are started."""

import dataclasses
import importlib.util
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
TORCH = """
    cuda cuda_multigpu cuda_expandable_segments cuda_primary_ctx cuda_trace cuda_sanitizer
    cuda_nvml_based_avail cuda_compatibility cuda_graph_annotations torch nn
    linalg ops reductions indexing sort_and_select binary_ufuncs unary_ufuncs
    tensor_creation_ops view_ops spectral_ops sparse sparse_csr sparse_semi_structured
    scatter_gather_ops segment_reductions shape_ops type_promotion transformers dlpack dataloader
    multiprocessing numba_integration autograd optim foreach jiterator matmul_cuda
    scaled_matmul_cuda native_mha nestedtensor masked serialization autocast modules decomp prims
    namedtensor complex
""".split()
TORCH_BELOW = """
    inductor/test_cudagraph_trees.py inductor/test_torchinductor.py inductor/test_triton_kernels.py
    inductor/test_cuda_repro.py inductor/test_flex_attention.py inductor/test_gpu_cpp_wrapper.py
    inductor/test_max_autotune.py inductor/test_foreach.py inductor/test_user_streams.py
    inductor/test_compiled_optimizers.py inductor/test_static_triton_launcher.py
    functorch/test_vmap.py functorch/test_ops.py functorch/test_eager_transforms.py
    profiler/test_profiler.py profiler/test_memory_profiler.py profiler/test_cpp_thread.py
    distributions/test_distributions.py
""".split()


@dataclasses.dataclass
class Suite:
    """`cap` tests a file, or the `part` (k of n) of all; `limit` seconds a test; `seconds` a task,
    twice that remotely; `path`: folders of packages that go before the installed ones."""

    name: str
    files: list
    cwd: pathlib.Path
    args: list = dataclasses.field(default_factory=list)
    env: dict = dataclasses.field(default_factory=dict)
    cap: int = 80
    select: str = ""
    skip: str = ""
    limit: float = 60
    seconds: float = 90
    chunk: int = 1
    path: tuple = ()
    part: tuple = ()
    split: int = 1

    parts: tuple = ()

    def tasks(self):
        """What one process starts with: some files and, of a file in parts, the names it takes and
        which part of them: of the Kth of N, split in M, process J has the (K + N J)th of N M."""
        k, n = self.part or (1, 1)
        dealt = [(k + n * j, n * self.split) for j in range(self.split)] if self.part else [()]
        return [(self.files[i:i + self.chunk], names, part)
                for i in range(0, len(self.files), self.chunk)
                for names in self.parts or (self.select,) for part in dealt]


def numba_site(folder):
    """Where numba-cuda is: in `numba/site`, or among the installed packages."""
    own = folder / "numba/site"
    if (own / "numba_cuda").is_dir():
        return own
    spec = importlib.util.find_spec("numba_cuda")
    return pathlib.Path(spec.origin).parent.parent if spec and spec.origin else own


def numba_modules(folder):
    """The names of the test modules that come with numba-cuda."""
    tests = numba_site(folder) / "numba_cuda/numba/cuda/tests"
    return [
        f"numba.cuda.tests.{kind}.{p.stem}"
        for kind in ("cudadrv", "cudapy", "nrt", "doc_examples")
        for p in sorted((tests / kind).glob("test_*.py"))
    ]


def suites(folder, scale):
    """What there is in `folder`, and what the installed packages bring along."""
    found = []
    cap = lambda n: max(1, round(n * scale))
    torch = folder / "pytorch/test"
    files = [f"test_{n}.py" for n in TORCH if (torch / f"test_{n}.py").exists()]
    files += sorted(str(p.relative_to(torch)) for p in torch.glob("nn/test_*.py"))
    files += [f for f in TORCH_BELOW if (torch / f).exists()]
    found.append(
        Suite(
            "torch",
            files,
            torch,
            ["--noconftest"],
            {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda"},
            cap(60),
            select="(?i)cuda|gpu|dataloader|multiprocessing|profiler",
            seconds=50,
            # These measure or fill the whole GPU's memory, which others use at the same time.
            skip=r"out_of_memory_retry|per_process_memory_fraction|mem_get_info"
            r"|(?i:large|huge|64bit|memory_leak|oom)",
        )
    )
    found.append(
        Suite(
            "opinfo",
            ["test_opinfo.py"] if importlib.util.find_spec("torch") else [],
            HERE / "suite",
            ["--noconftest"],
            cap=cap(250),
            seconds=120,
            parts=(r"\[[^a-z]", r"\[[a-d]", r"\[[e-k]", r"\[l", r"\[[m-n]", r"\[[o-s]", r"\[[t-z]"),
        )
    )
    distributed = folder / "pytorch-distributed/test/distributed"
    files = sorted(str(p.relative_to(distributed)) for p in distributed.glob("**/test_*.py"))
    found.append(
        Suite(
            "distributed",
            # Other backends and what starts processes need no GPU.
            [f for f in files if not re.search(r"gloo|ucc|elastic|launcher|bin/|rpc/test_", f)],
            distributed,
            ["--noconftest", "-p", "no:randomly"],
            cap=cap(4),
            limit=75,
            seconds=100,
        )
    )
    accelerate = folder / "accelerate"
    files = sorted(f"tests/{p.relative_to(accelerate / 'tests')}"
                   for p in accelerate.glob("tests/**/test_*.py"))
    found.append(
        Suite(
            "accelerate",
            [f for f in files if not re.search(r"test_(cpu|tpu|sagemaker|tracking|imports)", f)],
            accelerate,
            cap=cap(12),
            limit=120,
            seconds=150,
            path=(str(accelerate / "src"), str(accelerate)),
        )
    )
    deepspeed = folder / "deepspeed"
    unit = deepspeed / "tests/unit"
    files = sorted(str(p.relative_to(unit)) for p in unit.glob("**/test_*.py"))
    found.append(
        Suite(
            "deepspeed",
            # These compile for longer than they test, or start other programs.
            [f for f in files if not re.search(r"^(inference|launcher|ops|autotuning)/", f)],
            unit,
            cap=cap(3),
            limit=120,
            seconds=150,
            path=(str(deepspeed),),
        )
    )
    torchao = folder / "torchao/test"
    files = sorted(str(p.relative_to(torchao)) for p in torchao.glob("**/test_*.py"))
    found.append(Suite("torchao", files, torchao, cap=cap(10), limit=120, seconds=120))
    cupy = folder / "cupy/tests"
    files = sorted(str(p.relative_to(cupy)) for p in cupy.glob("cupy_tests/*/**/test_*.py"))
    # Files next to each other take alike long: deal them out.
    found.append(
        Suite(
            "cupy",
            sorted(files, key=lambda f: (hash_of(f), f)),
            cupy,
            ["-o", "xfail_strict=true", "-m", "not slow and not multi_gpu"],
            cap=cap(25),
            chunk=6,
            seconds=60,
        )
    )
    found.append(
        Suite(
            "numba",
            sorted(numba_modules(folder), key=lambda f: (hash_of(f), f)),
            # Names of tests are those of files below this folder.
            numba_site(folder),
            ["--noconftest", "-o", "consider_namespace_packages=true", "--pyargs"],
            # That folder has other packages, too, which are not to come first.
            {"PYTHONSAFEPATH": "1"},
            cap=cap(40),
            chunk=8,
            seconds=60,
            path=(str(folder / "numba/site"),),
        )
    )
    cuda = folder / "cuda-python"
    for name in ("core", "bindings"):
        here = cuda / f"cuda_{name}"
        files = sorted(str(p.relative_to(here)) for p in here.glob("tests/**/test_*.py"))
        found.append(
            Suite(
                f"cuda-{name}",
                [f for f in files if not re.search(r"/(cython|cudla)/|cufile", f)],
                here,
                ["-p", "no:randomly"],
                cap=cap(100),
                chunk=2,
                path=(str(cuda / "site"),),
            )
        )
    jax = folder / "jax/tests"
    files = sorted(p.name for p in jax.glob("*_test.py"))
    found.append(
        Suite(
            "jax",
            sorted(files, key=lambda f: (hash_of(f), f)),
            jax,
            ["--noconftest", "-o", "python_files=*_test.py"],
            # The client of XLA takes most of a GPU's memory otherwise, for each of the tasks.
            {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_NUM_GENERATED_CASES": "3"},
            cap=cap(15),
            seconds=80,
            skip=r"(?i:multiprocess|pgle|profiler|tpu|mosaic|back_compat)",
        )
    )
    pycuda = folder / "pycuda/test"
    files = sorted(p.name for p in pycuda.glob("test_*.py"))
    found.append(Suite("pycuda", files, pycuda, ["--noconftest"], cap=cap(100)))
    nvmath = folder / "nvmath/tests"
    files = sorted(str(p.relative_to(nvmath)) for p in nvmath.glob("nvmath_tests/**/test_*.py"))
    found.append(
        Suite(
            "nvmath",
            # One process is no job over several; what is timed is not compared.
            [f for f in files if not re.search(r"/distributed/|_perf", f)],
            nvmath,
            cap=cap(25),
            chunk=2,
        )
    )
    taichi = folder / "taichi"
    found.append(
        Suite(
            "taichi",
            sorted(f"tests/python/{p.name}" for p in taichi.glob("tests/python/test_*.py")),
            taichi,
            env={"TI_WANTED_ARCHS": "cuda", "TI_OFFLINE_CACHE": "0"},
            cap=cap(15),
            chunk=8,
            path=(str(taichi),),
        )
    )
    drjit = folder / "drjit/tests"
    files = sorted(p.name for p in drjit.glob("test_*.py"))
    # Extensions of its own build are not in the package; the other backends see no GPU.
    files = [f for f in files if not re.search(r"_ext\.py|consistency", f)]
    found.append(
        Suite("drjit", files, drjit, cap=cap(60), chunk=4, select="cuda")
    )
    kvikio = folder / "kvikio/python/kvikio/tests"
    files = sorted(p.name for p in kvikio.glob("test_*.py"))
    found.append(
        Suite(
            "kvikio",
            # Other machines' storage, and the times of benchmarks.
            [f for f in files if not re.search(r"hdfs|http|s3|remote|benchmarks|examples", f)],
            kvikio,
            cap=cap(60),
            chunk=2,
        )
    )
    tilelang = folder / "tilelang/testing/python"
    files = sorted(str(p.relative_to(tilelang)) for p in tilelang.glob("**/test_*.py"))
    found.append(
        Suite(
            "tilelang",
            [f for f in files if not re.search(r"amd|metal|webgpu|cpu|llvm", f)],
            tilelang,
            ["--noconftest"],
            cap=cap(15),
            chunk=4,
        )
    )
    triton = folder / "triton/python"
    files = sorted(str(p.relative_to(triton)) for p in triton.glob("**/test_*.py"))
    found.append(
        Suite(
            "triton",
            # What needs no GPU of this kind, or a plugin that is built with Triton itself.
            [f for f in files if not re.search(r"amd|cdna|tlx|plugin|filecheck|frontend|knobs", f)],
            triton,
            cap=cap(40),
            limit=120,
            path=(str(triton / "triton_kernels"),),
        )
    )
    gems = folder / "flaggems"
    files = sorted(str(p.relative_to(gems)) for p in gems.glob("tests/test_*.py"))
    found.append(
        Suite("flaggems", files, gems, ["--mode", "quick"], cap=cap(60), limit=120,
              path=(str(gems / "src"),))
    )
    liger = folder / "liger"
    files = sorted(str(p.relative_to(liger)) for p in liger.glob("test/**/test_*.py"))
    found.append(
        Suite(
            "liger",
            # Weights and data of others; compilers of their own.
            [f for f in files if not re.search(r"convergence|megatron|cute|cutile", f)],
            liger,
            cap=cap(15),
            limit=120,
            chunk=3,
            path=(str(liger / "src"), str(liger)),
        )
    )
    cccl = folder / "cccl/python/cuda_cccl/tests"
    files = sorted(str(p.relative_to(cccl)) for p in cccl.glob("**/test_*.py"))
    found.append(Suite("cccl", files, cccl, cap=cap(25), limit=120, chunk=2))
    found += more(folder, cap)
    extra = folder / "extra"
    found.append(
        Suite("extra", sorted(p.name for p in extra.glob("test_*.py")), extra, cap=cap(200))
    )
    return [s for s in found if s.files]


def more(folder, cap):
    """Suites of libraries on top of PyTorch and JAX, and of Warp and RMM."""
    found = []

    def add(name, where, pattern, without="(?!)", says="", **given):
        here = folder / where
        files = sorted(str(p.relative_to(here)) for p in here.glob(pattern))
        files = [f for f in files if not re.search(without, f)
                 and re.search(says, (here / f).read_text())]
        # Files next to each other take alike long: deal them out.
        files.sort(key=lambda f: (hash_of(f), f))
        found.append(Suite(name, files, here, **given))

    add(
        "cucim",
        "python",
        "cucim/**/tests/test_*.py",
        cap=cap(25),
        chunk=3,
        args=["--noconftest"],
    )
    add(
        "warp",
        "python",
        "warp/tests/**/test_*.py",
        # Measurements, programs of their own, a display, and what empties the cache of all.
        without=r"/test_(cpu_|examples|fem_examples|render|kernel_cache|large|version|external_b)",
        # Functions outside of classes are the bodies of tests, and no tests.
        select=r"::Test\w*::|::\w+::test_",
        skip=r"_cpu$",
        cap=cap(40),
        # A file's kernels are one module, which its first test compiles.
        limit=180,
        seconds=180,
        chunk=2,
    )
    add(
        "rmm",
        "rmm/python/rmm/rmm/tests",
        "test_*.py",
        without="cython|version|helpers",
        cap=cap(120),
    )
    add(
        "bitsandbytes",
        "bitsandbytes",
        "tests/test_*.py",
        without="generation",
        env={"BNB_TEST_DEVICE": "cuda"},
        cap=cap(120),
        limit=90,
    )
    add(
        "tensordict",
        "tensordict/test",
        "**/test_*.py",
        without="_utils|ucxx|zarr|h5|store|setup|tabular|_fx|_split",
        cap=cap(200),
        limit=120,
        seconds=150,
    )
    add(
        "torchrl",
        "torchrl/test",
        "**/test_*.py",
        without="^(llm|libs|services)/|configs|rlhf|setup|loggers|helpers|benchmark",
        select=r"(?i)cuda|gpu|device\d|compile|collector|parallel",
        cap=cap(40),
        limit=90,
        chunk=2,
    )
    add(
        "fla",
        "fla",
        "tests/[clmo]*/**/test_*.py",
        without="context_parallel",
        cap=cap(10),
        limit=180,
        seconds=180,
        chunk=2,
    )
    add(
        "lightning",
        "lightning/tests",
        "tests_*/**/test_*.py",
        without="deepspeed|tensorrt|onnx|xla|tpu|mps|test_cli|graveyard|loggers|deprecated|legacy",
        says="cuda",
        select=r"(?i)cuda|gpu|amp|fsdp|device|precision|graph|16|_init|seed|optim",
        cap=cap(20),
        limit=90,
        chunk=4,
    )
    add(
        "geometric",
        "geometric",
        "test/**/test_*.py",
        without="cugraph|distributed/|llm|explain|visual|datasets|graphgym",
        says="CUDA",
        select="cuda|parallel|profile",
        cap=cap(30),
        chunk=12,
    )
    add(
        "kornia",
        "kornia",
        "tests/**/test_*.py",
        without="onnx|tests/(models|contrib|performance|x)/",
        env={"KORNIA_TEST_DEVICE": "cuda"},
        select="cuda",
        cap=cap(15),
        chunk=12,
    )
    # The client of XLA takes most of a GPU's memory otherwise, for each of the tasks.
    xla = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    add("equinox", "equinox", "tests/test_*.py", without="onnx", env=xla, cap=cap(40), chunk=3)
    late = {"args": ["-o", "python_files=*_test.py"], "env": xla}
    add("optax", "optax", "optax/**/*_test.py", cap=cap(30), chunk=4, **late)
    add("flax", "flax", "tests/**/*_test.py", without="board|io_test", cap=cap(25), chunk=4, **late)
    return found


def hash_of(text):
    value = 0
    for c in text.encode():
        value = (value * 131 + c) % 1000003
    return value
