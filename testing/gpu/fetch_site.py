"""Packs what a program needs a Python environment of its own for: packages whose versions do not go
with those of the machine, and with them all that they depend on.

    python3 testing/gpu/fetch_site.py vllm --out sites        makes sites/vllm.txz

`SITES` has them, for Python 3.12 beside PyTorch 2.11 and CUDA 13.0. What comes with PyTorch is left
out, as is what `--without` names; of a library's CUDA code only what one architecture runs is kept,
which makes most of them a tenth as large. `users.py --sites FOLDER` unpacks and uses them.
"""

import argparse
import csv
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

from fetch_users import MACHINE, plain

RAPIDS = "pandas<2.4 numpy<2.5 numba==0.64.0 cuda-core<0.8"
# What to fetch, and which packages of it are not needed for what the programs do.
SITES = {
    "vllm": (
        "vllm==0.20.2",
        "flashinfer_python flashinfer_cubin nvidia_cutlass_dsl nvidia_cutlass_dsl_libs_base "
        "nvidia_cutlass_dsl_libs_core nvidia_cutlass_dsl_libs_cu12 tilelang z3_solver cryptography "
        "quack_kernels cuda_tile torch_c_dlpack_ext fastsafetensors nvidia_cudnn_frontend numpy",
    ),
    "cudf": (f"cudf-cu13==26.6.0 {RAPIDS}", ""),
    "cuml": (f"cuml-cu13==26.6.0 {RAPIDS}", ""),
    "onnx": ("onnxruntime-gpu==1.31.1 onnx", ""),
    "dali": ("nvidia-dali-cuda130==2.2.0", ""),
}
# These are the machine's, with PyTorch; a site is used beside it.
THERE = """
    torch torchvision torchaudio triton nvidia_cublas nvidia_cuda_cupti nvidia_cuda_nvrtc
    nvidia_cuda_runtime nvidia_cudnn_cu13 nvidia_cufft nvidia_cufile nvidia_curand nvidia_cusolver
    nvidia_cusparse nvidia_cusparselt_cu13 nvidia_nccl_cu13 nvidia_nvjitlink nvidia_nvshmem_cu13
    nvidia_nvtx nvidia_cuda_nvcc nvidia_cuda_crt nvidia_cuda_cccl nvidia_nvvm cuda_toolkit scipy
    cupy_cuda13x filelock fsspec jinja2 markupsafe mpmath networkx opencv_python_headless pyarrow
    setuptools sympy typing_extensions
""".split()
FAT, CODE, PORTABLE = 0xBA55ED50, 2, 1


def prune(data, arch):
    """Leaves of an ELF file's fat binaries what `arch` runs; in place."""
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    strings = sections[names][4]
    for section in sections:
        begin = strings + section[0]
        if data[begin : data.find(b"\0", begin)] not in (b".nv_fatbin", b"__nv_relfatbin"):
            continue
        at, end = section[4], section[4] + section[5]
        while at + 16 <= end:
            magic, _, header, body = struct.unpack_from("<IHHQ", data, at)
            if magic != FAT:
                at += 8
                continue
            entry, over, entries = at + header, at + header + body, []
            while entry < over:
                kind, _, head, bytes_ = struct.unpack_from("<HHIQ", data, entry)
                wants, = struct.unpack_from("<I", data, entry + 28)
                entries.append((kind, wants, data[entry : entry + head + bytes_]))
                entry += head + bytes_
            fits = lambda kind, wants: wants <= arch and (
                kind == PORTABLE or kind == CODE and wants // 10 == arch // 10
            )
            best = max((e[:2] for e in entries if fits(*e[:2])), default=None)
            kept = b"".join(e[2] for e in entries if best is None or e[:2] == best)
            data[at + header : over] = kept + bytes(body - len(kept))
            struct.pack_into("<Q", data, at + 8, len(kept))
            at = over


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("site", choices=SITES)
    p.add_argument("--out", default="sites")
    p.add_argument("--arch", type=int, default=90)
    p.add_argument("--without", nargs="*", default=[], metavar="PACKAGE")
    a = p.parse_args()
    wanted, unneeded = SITES[a.site]
    without = set(map(plain, [*THERE, *unneeded.split(), *a.without]))
    with tempfile.TemporaryDirectory() as scratch:
        site = pathlib.Path(scratch) / "site"
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(site), *MACHINE]
        if subprocess.run([*command, "torch==2.11.0", *wanted.split()]).returncode:
            sys.exit("pip could not fetch all of them")
        for info in site.glob("*.dist-info"):
            if plain(info.name.removesuffix(".dist-info").rsplit("-", 1)[0]) not in without:
                continue
            for name, *_ in csv.reader((info / "RECORD").read_text().splitlines()):
                (site / name).unlink(missing_ok=True)
            shutil.rmtree(info, ignore_errors=True)
        for made in [*site.rglob("__pycache__"), *site.rglob("include")]:
            shutil.rmtree(made, ignore_errors=True)
        for folder in sorted(filter(pathlib.Path.is_dir, site.rglob("*")), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        for library in site.rglob("*.so*"):
            if library.is_file() and library.read_bytes()[:4] == b"\x7fELF":
                data = bytearray(library.read_bytes())
                prune(data, a.arch)
                library.write_bytes(data)
        out = pathlib.Path(a.out) / f"{a.site}.txz"
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(out, "w:xz", preset=3) as archive:
            archive.add(site, ".")
    print(f"{out}: {out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
