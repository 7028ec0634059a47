"""A step that only waits: what the harness itself does, and its test. Needs no PyTorch."""

import time

from busbar_bench.workloads._train import HostMark

NAMES = ("nothing",)
STEP_S = 0.001


class Nothing:
    unit = "steps/s"
    items_per_step = 1

    def __init__(self):
        self.steps = 0

    def step(self):
        time.sleep(STEP_S)
        self.steps += 1
        return float(self.steps)

    def synchronize(self):
        pass

    def mark(self):
        return HostMark()

    def read(self, result):
        return result

    def read_all(self, results):
        return list(results)

    def close(self):
        pass


def build(spec, feed):
    return Nothing()
