"""Copies between two servers: the C program over a driver that does nothing, and the table."""

import json
import shutil

import pytest
from test_micro import stub  # noqa: F401

from busbar_bench import across, cli, collection, micro, process

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_cc
def test_the_driver_copies_and_looks(stub, tmp_path):  # noqa: F811
    driver = micro.build(str(tmp_path), "driver")
    outcome = process.run([driver, "across", "1048576", "2"], env={"LD_LIBRARY_PATH": stub})
    assert outcome["error"] is None, outcome
    (line,) = outcome["lines"]
    assert line["mode"] == "across" and line["intact"] is True
    assert [size["bytes"] for size in line["sizes"]] == [65536, 262144, 1048576]


@needs_cc
def test_the_whole_command(stub, tmp_path, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setenv("LD_LIBRARY_PATH", stub)
    argv = ["run", "across", "--smoke", "--remote-prefix", "env SERVERS={server}"]
    assert cli.main([*argv, "--server", "a:1,b:2", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "through the client, GB/s" in text and "of the raw link" in text
    result = json.loads((tmp_path / "across.json").read_text())
    commands = [o["command"] for o in result["runs"]["straight"]]
    assert all("SERVERS=a:1,b:2" in c for c in commands) and result["raw"][0] > 0
    result["runs"]["straight"][0]["lines"][0]["intact"] = False
    assert collection.failed([result])
    assert "other bytes came" in across.result_text(result)
    assert cli.main(["report", str(tmp_path / "across.json")]) == 0
    for lacking in (["--server", "a:1"], ["--remote-prefix", ""]):
        assert cli.main([*argv, "--server", "a:1,b:2", *lacking]) == 2


def result_of(raw, straight, client, nominal=1.0):
    """A result of rounds: rates of raw and straight, and the client's bytes."""
    size = 1000

    def outcome(rate, counted):
        line = {"repeats": 3, "intact": True, "sizes": [{"bytes": size, "ns": size / rate * 1e9}]}
        busbar = {"bytes_sent": size + counted, "bytes_received": size}
        return {"error": None, "lines": [line], "busbar": busbar}

    ways = {"straight": [outcome(rate, client) for rate in straight], "through the client": []}
    return {"raw": raw, "nominal": nominal, "runs": ways, "title": "t", "rows": []}


def test_the_bars_are_of_the_same_round_and_of_the_copies_alone():
    def said(*args, **more):
        return [verdict for _, verdict, _ in across.verdicts(result_of(*args, **more))]

    # Halves of the rate of a link that became half as fast in the last round are no loss.
    assert said([1e9, 1e9, 5e8], [0.97e9, 0.96e9, 4.8e8], 0) == ["pass"] * 4
    assert said([1e9] * 3, [0.94e9] * 3, 0) == ["pass", "pass", "fail", "pass"]
    # Five copies of 1,000 bytes: 50 bytes are one in a hundred.
    assert said([1e9], [1e9], 49) == ["pass"] * 4
    assert said([1e9], [1e9], 50) == ["pass", "pass", "pass", "fail"]
    assert said([1e9], [0.5e9], 5000, nominal=None) == ["pass"] * 2
