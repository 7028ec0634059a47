"""The statistics."""

import math

import pytest

from busbar_bench import stats


def test_quantiles_interpolate():
    assert stats.median([3, 1, 2]) == 2
    assert stats.median([1, 2, 3, 4]) == 2.5
    assert stats.quantile([0, 10], 0.9) == 9
    assert stats.median([]) is None


def test_summary_as_tf_cnn_benchmarks_reports_it():
    found = stats.summary([1.0, 2.0, 3.0, 4.0, 100.0])
    assert found["median"] == 3 and found["min"] == 1 and found["max"] == 100
    assert found["jitter"] == pytest.approx(1.4826 * 1)
    variance = sum((v - 22) ** 2 for v in (1, 2, 3, 4, 100)) / 4
    assert found["uncertainty"] == pytest.approx(math.sqrt(variance / 5))
    assert stats.summary([7.0])["uncertainty"] == 0
    assert stats.summary([]) is None


def test_ratios_pair_rounds_and_leave_out_failed_ones():
    found = stats.ratio_summary([90, None, 120, 50], [100, 100, 100, None])
    assert found["per_round"] == [0.9, 1.2]
    assert (found["median"], found["min"], found["max"]) == (pytest.approx(1.05), 0.9, 1.2)
    assert stats.ratio_summary([None], [1]) is None
    assert stats.ratio_summary([], []) is None


def test_rates_of_blocks():
    assert stats.block_rates([0.5, 0.25], 10, 32) == [640, 1280]
