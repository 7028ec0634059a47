"""The few statistics that the tables need."""

import math
import statistics


def quantile(values, q):
    """The q-quantile, interpolated between neighbours; None of nothing."""
    values = list(values)
    if len(values) < 2 or q in (0, 1):
        return (max(values) if q else min(values)) if values else None
    thousands = statistics.quantiles(values, n=1000, method="inclusive")
    return thousands[round(q * 1000) - 1]


def median(values):
    """The middle value; None of nothing."""
    values = list(values)
    return statistics.median(values) if values else None


def summary(values):
    """Median, range, mean, uncertainty of the mean and jitter (1.4826 times the median
    absolute deviation), as tf_cnn_benchmarks reports them; None of nothing."""
    values = list(values)
    if not values:
        return None
    middle = statistics.median(values)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "count": len(values),
        "median": middle,
        "min": min(values),
        "max": max(values),
        "mean": statistics.fmean(values),
        "uncertainty": deviation / math.sqrt(len(values)),
        "jitter": 1.4826 * statistics.median(abs(v - middle) for v in values),
    }


def ratio_summary(ours, base):
    """Per-round ratios of two lists that belong together, and their spread. A round that lacks
    either side is left out; None if no round is left."""
    pairs = [(a, b) for a, b in zip(ours, base) if a is not None and b]
    if not pairs:
        return None
    ratios = [a / b for a, b in pairs]
    return {
        "median": median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "per_round": ratios,
    }


def block_rates(block_seconds, steps_per_block, items_per_step):
    """Items a second of each block of steps."""
    return [steps_per_block * items_per_step / s for s in block_seconds if s > 0]
