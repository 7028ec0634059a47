"""What is computed for fabrics, by hand."""

import json
import pathlib

import pytest

from busbar_bench import cli, fabrics

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results"

STATS = {
    "bytes_sent": 3 * (1 << 30) + 4_000_000,
    "bytes_received": 0,
    "round_trips": 1000,
    "calls": 32_000,
    "by_call": [
        {"call": "CopyIn", "bytes": 3 * (1 << 30)},
        {"call": "LaunchKernel", "bytes": 4_000_000},
    ],
}


def test_requests_are_those_that_the_code_makes():
    has = fabrics.counts(STATS)
    # 1,000 gatherings of launches, 2,000 messages of round trips, 3,072 pieces.
    assert has["requests"] == 1000 + 2000 + 5 * 3072
    assert has["completions"] == 3000 // 32 + 4 * 3072
    assert (has["ring_bytes"], has["round_trips"]) == (4_000_000, 1000)


def test_a_fabric_four_times_as_fast_is_busy_for_a_quarter_and_copies_cost_a_core():
    has = fabrics.counts(STATS)
    slow, fast = (fabrics.bounds(has, gbps) for gbps in (100, 400))
    assert slow["fabric"] == pytest.approx(STATS["bytes_sent"] / 12e9)
    assert slow["fabric"] == pytest.approx(4 * fast["fabric"])
    assert slow["core"] == fast["core"]
    copied = fabrics.bounds(has, 400, in_place=False)
    assert copied["core"] - fast["core"] == pytest.approx(3 * (1 << 30) / 10e9)


@pytest.mark.parametrize(("device", "bound"), [(1.0, "device"), (0.1, "fabric")])
def test_the_longest_bounds_and_round_trips_come_on_top(device, bound):
    run = {"steps": 90, "warmup_steps": 10, "step_ms": device * 10}
    row = {"spec": "a:1:fp32", "link": None, "sides": {"local": [run], "remote": [run]}}
    process = {"side": "remote", "round": 0, "link": None, "specs": ["a:1:fp32"], "busbar": STATS}
    first, _ = fabrics.computed({"table": "x", "rows": [row], "processes": [process]})
    assert first["bound"] == bound
    wanted = device / (max(device, STATS["bytes_sent"] / 12e9) + 1000 * 2 * 1.66e-6)
    assert first["ratio"] == pytest.approx(wanted)
    untimed = {**row, "sides": {"local": [None], "remote": [run]}}
    assert not fabrics.computed({"table": "x", "rows": [untimed], "processes": [process]})


def test_a_result_that_was_measured_can_be_computed(capsys):
    file = RESULTS / "2026-11-23-h200-imagenet-host.json"
    assert json.loads(file.read_text(encoding="utf-8"))["table"] == "imagenet-host"
    assert cli.main(["fabrics", str(file)]) == 0
    said = capsys.readouterr().out
    assert "not measured on a fabric" in said and "resnet50:64:fp32:ahead+host" in said
