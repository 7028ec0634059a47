"""Whole runs with the workload that needs no GPU."""

import json
import sys

import pytest

from busbar_bench import cli, process, report, results, runner

PREFIX = ["--remote-prefix", "env BENCH_SIDE=remote"]
QUICK = ["--steps", "5", "--warmup", "1"]


def test_a_run_alternates_and_writes_its_files(tmp_path, capsys):
    argv = ["run", "nothing,nothing:2", *PREFIX, *QUICK, "--rounds", "2", "--out", str(tmp_path)]
    assert cli.main(argv) == 0
    with open(tmp_path / "custom.json", encoding="utf-8") as file:
        result = results.check(json.load(file))
    order = [(p["round"], p["side"]) for p in result["processes"]]
    assert order == [(0, "local"), (0, "remote"), (1, "remote"), (1, "local")]
    assert all(len(row["ratios"]["remote"]["per_round"]) == 2 for row in result["rows"])
    assert all(row["losses_equal"] for row in result["rows"])
    assert "<svg" in (tmp_path / "custom.html").read_text(encoding="utf-8")
    assert "nothing:2:fp32" in capsys.readouterr().out
    assert cli.main(["compare", *[str(tmp_path / "custom.json")] * 2]) == 0
    assert cli.main(["report", str(tmp_path / "custom.json")]) == 0


def test_peers_are_measured_too(capsys):
    argv = ["run", "nothing", *PREFIX, *QUICK, "--rounds", "1", "--peer", "other=env A=b"]
    assert cli.main(argv) == 0
    assert "other ratio" in capsys.readouterr().out


NO_DEVICE = "no session without RDMA: this machine has no RDMA device"


@pytest.mark.parametrize(
    ("says", "column"),
    [("exit 0", ""), (f"echo {NO_DEVICE} >&2; exit 1", "no device"), ("exit 1", "failed")],
)
def test_a_column_over_rdma_has_a_number_or_says_that_there_is_no_device(tmp_path, says, column):
    prefix = tmp_path / "prefix"
    prefix.write_text(
        '#!/bin/sh\n[ "$BUSBAR_RDMA" = off ] && exec "$@"\n'
        f'[ "$BUSBAR_RDMA" = on ] || exit 9\n({says}) && exec "$@"\n'
    )
    prefix.chmod(0o755)
    argv = ["run", "nothing", *QUICK, "--rounds", "1", "--out", str(tmp_path)]
    assert cli.main([*argv, "--remote-prefix", str(prefix), "--transports", "tcp,rdma"]) == 0
    with open(tmp_path / "custom.json", encoding="utf-8") as file:
        result = results.check(json.load(file))
    head, (row,) = report.cells(result)
    cell = dict(zip(head, row))["rdma"]
    assert column in cell if column else float(cell) > 0, cell


def test_a_remote_side_that_fails_is_an_error_not_a_crash(capsys):
    argv = ["run", "nothing", "--remote-prefix", "false", *QUICK, "--rounds", "1"]
    assert cli.main(argv) == 1
    assert "exit status 1" in capsys.readouterr().out
    argv = ["run", "nothing", "--remote-prefix", "/nowhere/at-all", *QUICK, "--rounds", "1"]
    assert cli.main(argv) == 1
    assert "cannot start" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["run", "vgg"], "no table or workload is named 'vgg'"),
        (["run", "nothing:0"], "positive number"),
        (["run", "nothing", "--link", "loopback"], "--link-binary"),
        (["run", "nothing", "--remote-prefix", "x {server}"], "--server"),
        (["run", "nothing", "--server", "a:1", "--link-binary", "l", "--remote-prefix", "x"],
         "bypass the link"),
        (["run", "nothing", "--peer", "local=x"], "cannot be called"),
        (["run", "nothing", "--peer", "rdma=x"], "cannot be called"),
        (["run", "nothing", "--only", "alexnet"], "no row is left"),
        (["run", "nothing", "--server", "a:1", "--link-binary", "/nowhere/link",
          "--remote-prefix", "env S={server}"], "cannot start"),
        (["compare", "/nowhere/a", "/nowhere/b"], "cannot read"),
    ],
)  # fmt: skip
def test_bad_arguments_have_one_clear_error(argv, reason, capsys):
    assert cli.main(argv) == 2
    (line,) = [ln for ln in capsys.readouterr().err.splitlines() if reason in ln]
    assert line.startswith("busbar-bench: ")


def test_a_process_that_hangs_is_ended():
    outcome = process.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout=0.5)
    assert "no end after" in outcome["error"]


def test_the_server_goes_where_the_prefix_says():
    command = process.command_of("busbar run --server {server} --", "127.0.0.1:7400", ["x"])
    assert command == ["busbar", "run", "--server", "127.0.0.1:7400", "--", "x"]
    assert process.command_of("", None, ["x"]) == ["x"]


EMULATOR = """
import json, signal, sys
print(json.dumps({"listening": "127.0.0.1:5", "argv": sys.argv}), flush=True)
def end(*_):
    print(json.dumps({"stats": {"kept_up": False, "warnings": ["late"], "argv": sys.argv}}))
    sys.exit(2)
signal.signal(signal.SIGTERM, end)
while True:
    signal.pause()
"""


def test_the_runner_starts_the_link_and_points_the_remote_side_at_it(tmp_path, capsys):
    script = tmp_path / "emulator.py"
    script.write_text(EMULATOR, encoding="utf-8")
    argv = ["run", "nothing", *QUICK, "--rounds", "1", "--server", "far:7400"]
    argv += ["--link", "roce-100g", "--link-binary", f"{sys.executable} {script}"]
    argv += ["--remote-prefix", "env S={server}", "--out", str(tmp_path)]
    assert cli.main(argv) == 0
    result = json.loads((tmp_path / "custom.json").read_text(encoding="utf-8"))
    remote = next(p for p in result["processes"] if p["side"] == "remote")
    assert remote["command"].startswith("env S=127.0.0.1:5 ")
    (link,) = result["links"]
    arguments = link["stats"]["argv"]
    assert arguments[arguments.index("--to") + 1] == "far:7400"
    assert arguments[arguments.index("--preset") + 1] == "roce-100g"
    assert "did not keep up: late" in capsys.readouterr().err


def test_every_other_round_runs_backwards():
    assert runner.order_of([1, 2, 3], 0) == [1, 2, 3]
    assert runner.order_of([1, 2, 3], 1) == [3, 2, 1]
