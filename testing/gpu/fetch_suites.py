"""Gathers the suites that `suites.py` runs into one archive; none of them is kept here.

    python3 testing/gpu/fetch_suites.py --out suites.tgz [--checkout cupy=FOLDER ...]
                                        [--add FOLDER ...]

What is taken from where is `SOURCES` below. A source comes from a checkout that `--checkout` names,
or else is cloned from GitHub at the release that fits the machine's own (`--ref pytorch=v2.11.0`).
numba-cuda's tests come with its package and need nothing. `--add` puts further folders in: one with
a `programs.json` (docs/suites.md) makes a suite of programs, `extra/` one of pytest files,
`python/` holds packages the machine lacks.
"""

import argparse
import pathlib
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
        ["test/test_*.py", "test/nn", "test/optim", "test/autograd", "test/expect"],
    ),
    "cupy": (
        "https://github.com/cupy/cupy",
        "v14.2.0",
        "cupy",
        ["tests/conftest.py", "tests/cupy_tests"],
    ),
}


def git(*args, **more):
    r = subprocess.run(["git", *map(str, args)], **more)
    if r.returncode:
        sys.exit(f"git {' '.join(map(str, args))[:200]} failed")
    return r


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--out", default="suites.tgz")
    p.add_argument("--only", nargs="*", default=list(SOURCES), choices=list(SOURCES))
    p.add_argument("--checkout", action="append", default=[], metavar="NAME=FOLDER")
    p.add_argument("--ref", action="append", default=[], metavar="NAME=REF")
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
                "--with-tree",
                ref,
                "--",
                *paths,
                capture_output=True,
                text=True,
            )
            wanted = sorted(set(listed.stdout.split()))
            if not wanted:
                sys.exit(f"{checkout} has none of {' '.join(paths)} at {ref}")
            tar = git("-C", checkout, "archive", ref, *wanted, capture_output=True).stdout
            subprocess.run(["tar", "x", "-C", tree], input=tar, check=True)
            archive.add(tree, folder)
            print(f"{name}: {len(wanted)} files of {ref}")
        for folder in map(pathlib.Path, a.add):
            archive.add(folder, folder.resolve().name)
            print(f"{folder.resolve().name}: added")
    print(f"{a.out}: {pathlib.Path(a.out).stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
