"""Packs the packages that the programs of `users.py` import into a folder of wheels.

    python3 testing/gpu/fetch_users.py --out wheels [--without transformers scikit-learn ...]

What the programs need beside PyTorch with torchvision, JAX, CuPy, Numba and what these bring is
`PACKAGES`, for Python 3.12 and PyTorch 2.11. `--without` leaves out what the machine is known to
have; `users.py --wheels` leaves out what it finds there. All weights are made by the programs:
nothing else is fetched.
"""

import argparse
import pathlib
import subprocess
import sys

PACKAGES = """
    bitsandbytes==0.50.2 einops==0.8.2 fla-core==0.6.0 flash-linear-attention==0.6.0
    liger-kernel==0.8.5 lightgbm==4.7.0 narwhals==2.29.0 ninja==1.13.2 tinygrad==0.14.0
    librmm-cu13==26.10.0 openmm==8.6.1 openmm-cuda-13==8.6.1 rapids-logger==0.3.0
    rmm-cu13==26.10.0 warp-lang==1.19.0 xgboost==3.4.1
    absl-py==2.5.1 accelerate==1.15.0 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0
    annotated-doc==0.0.7 annotated-types==0.8.0 anyio==4.16.0 attrs==26.1.0 blackjax==1.7.1
    botorch==0.18.1 certifi==2026.10.18 charset-normalizer==3.5.2 click==8.5.1 cloudpickle==3.1.2
    diffrax==0.7.2 diffusers==0.42.1 equinox==0.13.8 etils==1.15.0 flax==0.12.12 frozenlist==1.8.0
    gpytorch==1.15.2 h11==0.16.0 hf-xet==1.8.0 httpcore==1.0.9 httpx==0.28.1
    huggingface_hub==1.33.0 humanize==4.17.0 idna==3.20 importlib_metadata==10.2.0
    jaxtyping==0.3.11 joblib==1.6.0 lazy-importer==0.1.0 lightning-utilities==0.15.3
    linear_operator==0.6.1 lineax==0.1.1 markdown-it-py==4.3.0 mdurl==0.1.2 msgpack==1.2.4
    multidict==7.2.1 multipledispatch==1.0.0 mypy_extensions==1.2.0 numpyro==0.21.0 optax==0.2.8
    optimistix==0.1.0 packaging==26.3 peft==0.21.2 propcache==0.5.4 protobuf==7.36.2
    psutil==7.2.2 pydantic==2.14.3 pydantic_core==2.50.4 Pygments==2.21.0 pyparsing==3.3.3
    pyre-extensions==0.0.32 pyro-api==0.1.2 pyro-ppl==1.9.2 pytorch-lightning==2.6.6
    PyYAML==6.0.3 regex==2026.11.15 requests==2.34.2 rich==15.0.0 safetensors==0.8.0
    scikit-learn==1.9.1 shellingham==1.5.4 threadpoolctl==3.8.0 timm==1.0.31 tokenizers==0.23.2
    torch-geometric==2.8.0.post1 torchdiffeq==0.2.5 torchmetrics==1.9.0 tqdm==4.70.1
    transformers==5.17.0 treescope==0.1.10 typer==0.29.2 typing-inspect==0.9.0
    typing-inspection==0.4.5 typing_extensions==4.16.0 urllib3==2.8.0 wadler_lindig==0.1.8
    xxhash==4.1.0 yarl==1.25.1 zipp==4.1.2
""".split()
# pip takes a wheel for exactly these, not for what they would also run on.
PLATFORMS = [f"manylinux_2_{n}_x86_64" for n in range(5, 36)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64"]
# What pip is told of the machine that the packages are for.
MACHINE = ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
MACHINE += [word for name in PLATFORMS for word in ("--platform", name)]


def plain(name):
    """A package's name as it is compared."""
    return name.lower().replace("_", "-")


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", default="wheels")
    p.add_argument("--without", nargs="*", default=[], metavar="PACKAGE")
    a = p.parse_args()
    without = set(map(plain, a.without))
    unknown = without - {plain(x.split("==")[0]) for x in PACKAGES}
    if unknown:
        sys.exit(f"not among the packages: {' '.join(sorted(unknown))}")
    wanted = [x for x in PACKAGES if plain(x.split("==")[0]) not in without]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", a.out]
    command += MACHINE
    if subprocess.run([*command, *wanted]).returncode:
        sys.exit("pip could not fetch all of them")
    there = list(pathlib.Path(a.out).glob("*.whl"))
    size = sum(f.stat().st_size for f in there) / 2**20
    print(f"{a.out}: {len(there)} wheels, {size:.1f} MiB")


if __name__ == "__main__":
    main()
