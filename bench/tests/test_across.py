"""Copies between two servers: the C program over a driver that does nothing, and the table."""

import json
import shutil

import pytest
from test_micro import stub  # noqa: F401

from busbar_bench import across, cli, collection, micro, process

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@needs_cc
def test_the_driver_copies_and_looks(stub, tmp_path):  # noqa: F811
    driver = micro.build_driver(str(tmp_path))
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
    assert all("SERVERS=a:1,b:2" in c for c in commands) and result["raw"] > 0
    result["runs"]["straight"][0]["lines"][0]["intact"] = False
    assert collection.failed([result])
    assert "other bytes came" in across.result_text(result)
    assert cli.main(["report", str(tmp_path / "across.json")]) == 0
    for lacking in (["--server", "a:1"], ["--remote-prefix", ""]):
        assert cli.main([*argv, "--server", "a:1,b:2", *lacking]) == 2
