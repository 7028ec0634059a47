"""``python -m busbar_bench.steady NAME[:BATCH[:PRECISION[:OPTIONS]]]``

One process that runs one workload for as long as it is told to, and says when each step was done.
It prints a JSON object when it is ready, then reads orders, one JSON object a line:

    {"begin": T, "end": T, "every": S or null, "ahead": N or null}

Times are the machine's monotonic clock, which all processes share. Without ``every`` it starts as
many steps as the device takes, N of them ahead of the last that is done; with it, one step each S
seconds, and it waits for that step. It answers with the times at which steps were done, and with
how long each was waited for; or, of some of as many as the device takes, how long they took by the
device's clock, from the end of the step before to their own. The end of its input ends it.
"""

import argparse
import collections
import json
import os
import sys
import time

from busbar_bench import spec as specs
from busbar_bench import workloads

# Steps that are started ahead of the last that is done: enough that the device never waits. And
# how long ago the oldest of them was started: with a small share of a device a step takes long, and
# what is done shall be known soon.
AHEAD, OLD = 16, 0.1
WARM_UP = 20
# One in so many steps is timed.
TIMED = 8


class Ahead:
    """Steps that are started and not known to be done."""

    def __init__(self, workload, clock):
        self.workload, self.clock = workload, clock
        self.steps, self.last = collections.deque(), None
        # When each step was done, and (which step, the mark before it, its own) of those to time.
        self.done, self.timed = [], []

    def start(self):
        started = self.clock()
        self.workload.step()
        self.steps.append((started, self.workload.mark()))

    def age(self):
        """How long ago the oldest was started."""
        return self.clock() - self.steps[0][0]

    def finish(self):
        """Waits for the oldest."""
        _, mark = self.steps.popleft()
        mark.wait()
        if self.last and len(self.done) % TIMED == 0:
            self.timed.append((len(self.done), self.last, mark))
        self.done.append(self.clock())
        self.last = mark

    def took(self):
        """(which step, how long it took) of some. To ask is a call that waits for all that was
        started before: it is made when nothing else is."""
        return [(step, mark.since(before)) for step, before, mark in self.timed]


def saturate(workload, begin, end, most, clock=time.monotonic):
    """Starts steps until the end; returns when they were done, and how long some took."""
    wait_until(begin, clock)
    ahead = Ahead(workload, clock)
    while clock() < end:
        ahead.start()
        while len(ahead.steps) > most or len(ahead.steps) > 1 and ahead.age() > OLD:
            ahead.finish()
    while ahead.steps:
        ahead.finish()
    return ahead.done, ahead.took()


def pace(workload, begin, end, every, clock=time.monotonic):
    """A step each `every` seconds; returns when each was done, and how long that took."""
    done, waited, due = [], [], begin
    while due < end:
        wait_until(due, clock)
        started = clock()
        workload.step()
        workload.mark().wait()
        done.append(clock())
        waited.append(done[-1] - started)
        due = max(due + every, done[-1])
    return done, waited


def wait_until(moment, clock):
    """Sleeps until then."""
    while (left := moment - clock()) > 0:
        time.sleep(left)


def obey(workload, order):
    """Does what a line says; returns the answer."""
    waited, took = [], []
    if order.get("every"):
        done, waited = pace(workload, order["begin"], order["end"], order["every"])
    else:
        most = order.get("ahead") or AHEAD
        done, took = saturate(workload, order["begin"], order["end"], most)
    return {
        "done": [round(t, 6) for t in done],
        "waited": [round(t, 6) for t in waited],
        "took": [(index, round(t, 7)) for index, t in took],
    }


def main(argv=None):
    """Runs the process; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m busbar_bench.steady", description=__doc__)
    parser.add_argument("spec", help="NAME:BATCH:PRECISION:OPTIONS")
    args = parser.parse_args(argv)
    try:
        workload = workloads.build(specs.parse(args.spec), {"workers": 0})
    except ValueError as error:
        print(f"busbar-bench: {error}", file=sys.stderr)
        return 2
    for _ in range(WARM_UP):
        workload.step()
    workload.synchronize()
    ready = {
        "ready": True,
        "pid": os.getpid(),
        "unit": workload.unit,
        "items_per_step": workload.items_per_step,
    }
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(workload, json.loads(line))), flush=True)
    workload.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
