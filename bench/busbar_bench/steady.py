"""``python -m busbar_bench.steady NAME[:BATCH[:PRECISION[:OPTIONS]]]``

One process that runs one workload for as long as it is told to, and says when each step was done.
It prints a JSON object when it is ready, then reads orders, one JSON object a line:

    {"begin": T, "end": T, "every": S or null}

Times are the machine's monotonic clock, which all processes share. Without ``every`` it starts as
many steps as the device takes; with it, one step each S seconds, and it waits for that step. It
answers with the times at which steps were done, and with how long each was waited for. The end of
its input ends it.
"""

import argparse
import collections
import json
import sys
import time

from busbar_bench import spec as specs
from busbar_bench import workloads

# Steps that are started ahead of the last that is done: enough that the device never waits. And
# how long ago the oldest of them was started: with a small share of a device a step takes long, and
# what is done shall be known soon.
AHEAD, OLD = 16, 0.1
WARM_UP = 20


def saturate(workload, begin, end, clock=time.monotonic):
    """Starts steps until the end; returns the times at which they were done."""
    wait_until(begin, clock)
    done, ahead = [], collections.deque()
    while clock() < end:
        started = clock()
        workload.step()
        ahead.append((started, workload.mark()))
        while len(ahead) > AHEAD or len(ahead) > 1 and clock() - ahead[0][0] > OLD:
            ahead.popleft()[1]()
            done.append(clock())
    for _, wait in ahead:
        wait()
        done.append(clock())
    return done


def pace(workload, begin, end, every, clock=time.monotonic):
    """A step each `every` seconds; returns when each was done, and how long that took."""
    done, waited, due = [], [], begin
    while due < end:
        wait_until(due, clock)
        started = clock()
        workload.step()
        workload.mark()()
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
    if order.get("every"):
        done, waited = pace(workload, order["begin"], order["end"], order["every"])
    else:
        done, waited = saturate(workload, order["begin"], order["end"]), []
    return {"done": [round(t, 6) for t in done], "waited": [round(t, 6) for t in waited]}


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
    ready = {"ready": True, "unit": workload.unit, "items_per_step": workload.items_per_step}
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(workload, json.loads(line))), flush=True)
    workload.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
