"""How a workload is measured: the method of tf_cnn_benchmarks.

Warm-up steps are run and timed apart, then the measured steps, in blocks. Time is read only when
everything started has finished, at the end of a block; within a block the program runs ahead as
training programs do. The overall rate is all measured items over all measured time.
"""

import math
import time

from busbar_bench.stats import block_rates, summary


def hex_floats(values):
    """Exact: two runs are equal if and only if these strings are."""
    return [float(v).hex() for v in values]


def measure(
    workload, steps, warmup, block, read_every_step, clock=time.perf_counter, seconds=math.inf
):
    """Runs a workload; returns the raw numbers and their summary.

    After `seconds` no further block begins, so that what is slow has fewer steps.
    """
    kept, first_step = [], None
    begin = clock()
    for _ in range(warmup):
        kept.append(_step(workload, read_every_step))
        if first_step is None:
            workload.synchronize()
            first_step = clock() - begin
    workload.synchronize()
    warmup_s = clock() - begin
    block_seconds, block_steps, step_seconds = [], [], []
    done, measuring = 0, clock()
    while done < steps and (done == 0 or clock() - measuring < seconds):
        count = min(block, steps - done)
        block_begin = clock()
        for _ in range(count):
            if read_every_step:
                step_begin = clock()
                kept.append(_step(workload, True))
                step_seconds.append(clock() - step_begin)
            else:
                kept.append(_step(workload, False))
        workload.synchronize()
        block_seconds.append(clock() - block_begin)
        block_steps.append(count)
        done += count
    results = kept if read_every_step else workload.read_all(kept)
    measured_s = sum(block_seconds)
    rates = [
        rate
        for seconds, count in zip(block_seconds, block_steps)
        for rate in block_rates([seconds], count, workload.items_per_step)
    ]
    return {
        "unit": workload.unit,
        "items_per_step": workload.items_per_step,
        "warmup_steps": warmup,
        "warmup_s": warmup_s,
        "first_step_s": first_step,
        "steps": done,
        "block": block,
        "block_s": block_seconds,
        "step_s": step_seconds,
        "step_ms": measured_s / done * 1e3,
        "rate": done * workload.items_per_step / measured_s,
        "rate_spread": summary(rates),
        "losses": hex_floats(results),
        "finite": all(math.isfinite(v) for v in results),
    }


def _step(workload, read):
    result = workload.step()
    return workload.read(result) if read else result
