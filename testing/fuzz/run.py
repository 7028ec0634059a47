#!/usr/bin/env python3
"""Coverage-guided fuzzing under AddressSanitizer: see docs/fuzzing.md.

    testing/fuzz/run.py [--seconds N] [TARGET ...]    fuzz these, or all, for so long together
    testing/fuzz/run.py TARGET --again FILE           run one input again, and show what comes of it
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "fuzz"
TRIPLE = "x86_64-unknown-linux-gnu"
# Each target's part of the time: stateful ones are slow and have the most to find.
TARGETS = {
    "messages": 1,
    "documents": 1,
    "images": 1,
    "tls_records": 1,
    "http": 1,
    "cuda_worker": 3,
    "cuda_records": 6,
    "opencl_worker": 3,
    "cuda_client": 4,
    "opencl_client": 3,
}
# Those whose inputs are long and run much code.
STATEFUL = {"cuda_worker", "cuda_records", "opencl_worker", "cuda_client", "opencl_client"}
# Whose first inputs another has, too.
RECORDED = {"cuda_records": "cuda_worker"}
SANITIZED = "-Zsanitizer=address"
COVERED = [
    "-Clink-arg=-rdynamic",
    "-Cpasses=sancov-module",
    *(
        f"-Cllvm-args=-sanitizer-coverage-{what}"
        for what in ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
    ),
]
# Inputs that one process of `cuda_records` executes at most, and a third of as many as it may have
# descriptors: functions that the driver never runs keep what they were given, up to two descriptors
# an input.
MOST_RUNS = 50_000
# One target's time ends after so many findings: what comes then is most often the same.
MOST_FINDINGS = 5


def cargo(args, flags, **more):
    # The compiler's sanitizers come with every toolchain, behind this variable.
    env = {**os.environ, "RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": " ".join(flags), **more}
    subprocess.run(["cargo", *args, "--release", "--target", TRIPLE], check=True, env=env, cwd=ROOT)


def build():
    settings = {
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        "CARGO_PROFILE_RELEASE_DEBUG": "line-tables-only",
        "CARGO_PROFILE_RELEASE_STRIP": "none",
        "CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS": "true",
    }
    folder = BUILT / "driver"
    cargo(["build", "-p", "busbar-fakedev", "--target-dir", folder], [SANITIZED], **settings)
    manifest = HERE / "Cargo.toml"
    cargo(
        ["build", "--manifest-path", manifest, "--target-dir", BUILT, "--locked"],
        [SANITIZED, *COVERED],
    )


def program(target):
    return BUILT / TRIPLE / "release" / target


def surroundings():
    sanitizer = "detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0"
    # What a thread keeps of functions that have returned: an input's process has each page anew.
    sanitizer += ":max_uar_stack_size_log=16"
    if at := shutil.which("llvm-symbolizer") or shutil.which("addr2line"):
        sanitizer += f":external_symbolizer_path={at}"
    return {
        **os.environ,
        "ASAN_OPTIONS": sanitizer,
        "FUZZ_DRIVER": str(BUILT / "driver" / TRIPLE / "release/libfakedev.so"),
        "FAKEDEV_SPIN_US": "50",
        "FAKEDEV_MEMORY_MIB": "512",
        # Its one thread is the one that asks: an input's process has no other to begin with.
        "POCL_DEVICES": "basic",
        "POCL_CACHE_DIR": str(BUILT / "pocl"),
    }


def record():
    folder = BUILT / "seeds"
    if not folder.is_dir():
        env = {**surroundings(), "FUZZ_RECORD": str(folder)}
        subprocess.run([program("cuda_client")], check=True, env=env)
    return folder


def options(target):
    yield from ("-rss_limit_mb=0", "-detect_leaks=0", "-print_final_stats=1", "-timeout=60")
    # To name a function costs more than to run an input.
    yield "-print_funcs=0"
    # AddressSanitizer says more than the engine does.
    yield from ("-handle_segv=0", "-handle_bus=0", "-handle_fpe=0", "-handle_ill=0")
    if target in STATEFUL:
        yield from ("-max_len=65536", "-len_control=0", "-reload=0")
        # To say which inputs are rare costs a fifth of all time where each runs so much code.
        yield "-entropic=0"
    if target == "cuda_records":
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield f"-runs={min(MOST_RUNS, descriptors // 3)}"


class Run:
    """What came of fuzzing a target."""

    def __init__(self, target):
        self.target = target
        self.executions = self.coverage = self.seconds = 0
        self.findings = []
        # What is the OpenCL driver's own fault.
        self.driver = []

    def fuzz(self, seconds, recorded):
        corpus = BUILT / "corpus" / self.target
        corpus.mkdir(parents=True, exist_ok=True)
        found = BUILT / "findings" / self.target
        found.mkdir(parents=True, exist_ok=True)
        seeds = [recorded / RECORDED.get(self.target, self.target)]
        seeds = [folder for folder in seeds if folder.is_dir()]
        end = time.monotonic() + seconds
        start = time.monotonic()
        while (left := int(end - time.monotonic())) > 0 and not self.is_full():
            log = found / "log"
            command = [
                program(self.target),
                *options(self.target),
                f"-max_total_time={left}",
                f"-artifact_prefix={found}/",
                corpus,
                *seeds,
            ]
            with open(log, "wb") as to:
                ended = subprocess.run(
                    command, stdout=to, stderr=to, stdin=subprocess.DEVNULL, env=surroundings()
                )
            text = log.read_text(errors="replace")
            self.read(text)
            if ended.returncode == 0:
                continue
            self.finding(found, text, log)
        self.seconds = time.monotonic() - start

    def is_full(self):
        return len(self.findings) + len(self.driver) >= MOST_FINDINGS

    def read(self, text):
        said = re.findall(r"^#(\d+)\s.*?cov: (\d+)", text, re.M)
        done = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
        self.executions += int(done[-1]) if done else int(said[-1][0]) if said else 0
        self.coverage = max([self.coverage, *(int(cov) for _, cov in said)])

    def finding(self, folder, text, log):
        written = re.findall(r"Test unit written to (\S+)", text)
        if not written:
            sys.stderr.write(text[-4000:])
            raise SystemExit(f"{self.target} ended without an input to blame; {log} says more")
        file = Path(written[-1])
        file.with_suffix(".log").write_text(text)
        why = re.findall(r"(?:SUMMARY: AddressSanitizer: |panicked at )(.*)", text)
        why = [w for w in why if "apart.rs" not in w and "fuzzer" not in w]
        said = why[0] if why else "see the log beside it"
        if of_driver(text):
            self.driver.append((file, said))
        else:
            self.findings.append((file, said))


def of_driver(text):
    """Whether the first code to be blamed is that of the OpenCL driver: it ends its own session."""
    for frame in re.findall(r"^\s+#\d+ .*", text, re.M):
        if "/crates/" in frame or "/testing/" in frame:
            return False
        if "/libpocl" in frame or "/libLLVM" in frame:
            return True
    return False


def again(target, file):
    command = [program(target), *options(target), file]
    sys.exit(subprocess.run(command, env=surroundings()).returncode != 0)


def main():
    about = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=about[0], epilog=about[2], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=600, metavar="N")
    parser.add_argument("--again", type=Path, metavar="FILE")
    args = parser.parse_args()
    chosen = args.targets or list(TARGETS)
    if unknown := [t for t in chosen if t not in TARGETS]:
        parser.error(f"no such target: {unknown[0]}; there are {', '.join(TARGETS)}")
    if args.again and (len(chosen) != 1 or not args.again.is_file()):
        parser.error("--again takes one target and an input of it")
    build()
    if args.again:
        again(chosen[0], args.again)
    recorded = record()
    parts = sum(TARGETS[t] for t in chosen)
    runs = []
    for target in chosen:
        run = Run(target)
        run.fuzz(max(1, args.seconds * TARGETS[target] // parts), recorded)
        runs.append(run)
        print(f"{target}: {run.executions} executions, {len(run.findings)} findings", flush=True)
    print(f"\n{'target':<14} {'seconds':>8} {'executions':>11} {'coverage':>9} {'findings':>9}")
    for r in runs:
        counts = f"{r.seconds:>8.0f} {r.executions:>11} {r.coverage:>9} {len(r.findings):>9}"
        print(f"{r.target:<14} {counts}")
    for r in runs:
        for whose, found in (("", r.findings), ("in the driver: ", r.driver)):
            for file, why in found:
                command = f"testing/fuzz/run.py {r.target} --again {file}"
                print(f"\n{r.target}: {whose}{why}\n  {command}")
    if idle := [r.target for r in runs if not r.executions]:
        sys.exit(f"nothing was executed of {', '.join(idle)}")
    sys.exit(any(r.findings for r in runs))


if __name__ == "__main__":
    main()
