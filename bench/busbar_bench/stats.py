"""The few statistics that the tables need."""

import math


def quantile(values, q):
    """The q-quantile, interpolated between neighbours; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values):
    """The middle value; None of nothing."""
    return quantile(values, 0.5)


def summary(values):
    """Median, range, mean, uncertainty of the mean and jitter (1.4826 times the median
    absolute deviation), as tf_cnn_benchmarks reports them; None of nothing."""
    values = list(values)
    if not values:
        return None
    count = len(values)
    mean = sum(values) / count
    middle = median(values)
    variance = sum((v - mean) ** 2 for v in values) / (count - 1) if count > 1 else 0.0
    return {
        "count": count,
        "median": middle,
        "min": min(values),
        "max": max(values),
        "mean": mean,
        "uncertainty": math.sqrt(variance / count),
        "jitter": 1.4826 * median([abs(v - middle) for v in values]),
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
