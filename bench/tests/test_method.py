"""The method, on a clock that does not run by itself."""

import math

from busbar_bench.method import measure


class Scripted:
    """Each step takes what the script says; synchronizing waits for what was started."""

    unit, items_per_step = "images/s", 4

    def __init__(self, times, values=None):
        self.times, self.values = list(times), values
        self.now, self.pending, self.done, self.reads = 0.0, 0.0, 0, 0

    def step(self):
        self.pending += self.times[self.done]
        self.done += 1
        return self.done - 1

    def synchronize(self):
        self.now += self.pending
        self.pending = 0.0

    def value(self, index):
        return float(index) if self.values is None else self.values[index]

    def read(self, index):
        self.synchronize()
        self.reads += 1
        return self.value(index)

    def read_all(self, indices):
        return [self.value(index) for index in indices]


def run(workload, **more):
    settings = {"steps": 10, "warmup": 2, "block": 4, "read_every_step": False, **more}
    return measure(workload, **settings, clock=lambda: workload.now)


def test_warm_up_is_apart_and_the_rate_is_over_all_measured_time():
    found = run(Scripted([5.0, 1.0] + [0.5] * 8 + [1.0] * 2))
    assert found["first_step_s"] == 5 and found["warmup_s"] == 6
    assert found["block_s"] == [2.0, 2.0, 2.0]
    assert found["rate"] == 10 * 4 / 6
    assert found["rate_spread"]["min"] == 4 and found["rate_spread"]["max"] == 8
    assert found["step_ms"] == 600


def test_losses_of_every_step_are_kept_exactly():
    values = [0.1 * i for i in range(12)]
    found = run(Scripted([1.0] * 12, values))
    assert [float.fromhex(text) for text in found["losses"]] == values
    assert found["finite"]
    values[7] = math.nan
    assert not run(Scripted([1.0] * 12, values))["finite"]


def test_reading_every_step_times_every_step():
    workload = Scripted([1.0] * 12)
    found = run(workload, read_every_step=True)
    assert workload.reads == 12
    assert found["step_s"] == [1.0] * 10
    assert len(found["losses"]) == 12


def test_without_warm_up():
    found = run(Scripted([1.0] * 10), warmup=0)
    assert found["first_step_s"] is None and found["steps"] == 10
