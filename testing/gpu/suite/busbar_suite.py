"""A pytest plugin for `suites.py`: picks a task's tests, reports each as it starts and ends.

`BUSBAR_SUITE_TASK` names a JSON file: `results` (the file to append to), `cap` (tests a file at
most, chosen by a hash of their names, so that both sides choose alike), `part` ([k, n]: instead of
that, the kth of n parts by the same hash), `select` and `skip` (regular expressions), `only`
(names; then nothing else matters), `done` (names to leave out) and `seconds` (begin no further test
after that). A line is a JSON object: `collected`, `start`, `end` or `collect` (a file that does not
load). After a test whose error a process does not recover from, the rest is left to a new one.
"""

import json
import os
import re
import time
import zlib

import pytest

STICKY = re.compile(
    r"illegal memory access|unspecified launch failure|device-side assert|misaligned address"
    r"|illegal instruction|CUDA_ERROR_(LAUNCH_FAILED|ILLEGAL_|ASSERT|MISALIGNED|UNKNOWN"
    r"|CONTEXT_IS_DESTROYED|DEVICE_UNAVAILABLE|NOT_INITIALIZED)|cudaError(LaunchFailure|Illegal"
    r"|Assert|Misaligned|Unknown|DevicesUnavailable|InitializationError)"
    r"|initialization error|CUDA-capable device\(s\) is/are busy"
)
RANK = {"passed": 0, "skipped": 1, "xfailed": 1, "xpassed": 2, "failed": 3, "error": 4}


class Reporter:
    def __init__(self, task):
        self.task = task
        self.out = open(task["results"], "a", buffering=1)
        self.began = time.monotonic()
        self.now = None

    def write(self, **record):
        self.out.write(json.dumps(record) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        task, files = self.task, {}
        only, done = set(task.get("only") or ()), set(task.get("done") or ())
        select, skip = (
            re.compile(task.get(k) or alt) for k, alt in (("select", ""), ("skip", "(?!)"))
        )
        for item in items:
            name = item.nodeid
            if name in only or not only and select.search(name) and not skip.search(name):
                files.setdefault(name.split("::")[0], []).append(name)
        keep = set()
        for names in files.values():
            order = sorted(set(names), key=lambda n: (zlib.crc32(n.encode()), n))
            if only:
                keep.update(order)
            elif task.get("part"):
                k, n = task["part"]
                keep.update(x for x in order if zlib.crc32(x.encode()) % n == k - 1)
            else:
                keep.update(order[:task["cap"]])
        self.write(collected=len(items), chosen=len(keep))
        left = [i for i in items if i.nodeid in keep and i.nodeid not in done]
        config.hook.pytest_deselected(items=[i for i in items if i not in set(left)])
        items[:] = left

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(collect=report.nodeid, tail=str(report.longrepr)[-1500:])

    def pytest_runtest_logstart(self, nodeid):
        self.now = {"outcome": "passed", "seconds": 0.0, "tail": ""}
        self.write(start=nodeid)

    def pytest_runtest_logreport(self, report):
        if self.now is None:
            return
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "xpassed"
        elif report.failed and report.when != "call":
            outcome = "error"
        self.now["seconds"] += report.duration
        if RANK.get(outcome, 3) >= RANK[self.now["outcome"]] and outcome != "passed":
            self.now["outcome"] = outcome
            text = report.longrepr
            if isinstance(text, tuple):
                text = text[-1]
            self.now["tail"] = str(text)[-2500:]

    def pytest_runtest_logfinish(self, nodeid):
        now, self.now = self.now, None
        poisoned = now["outcome"] in ("failed", "error") and bool(STICKY.search(now["tail"]))
        self.write(end=nodeid, poisoned=poisoned, **now)
        if poisoned or time.monotonic() - self.began > self.task["seconds"]:
            self.session.shouldstop = "left to a new process" if poisoned else "out of time"

    def pytest_sessionstart(self, session):
        self.session = session


def pytest_configure(config):
    with open(os.environ["BUSBAR_SUITE_TASK"]) as f:
        config.pluginmanager.register(Reporter(json.load(f)), "busbar-suite-reporter")


@pytest.fixture(scope="class")
def initialize_from_pytest_config(request):
    """What numba.cuda's test cases ask for; their own plugin is not installed with them."""
    request.cls._dump_failed_filechecks = False
