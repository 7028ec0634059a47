"""Tables of many ranks: their arithmetic, their launcher, and the whole commands without a GPU."""

import json
import sys

import pytest

from busbar_bench import (
    cli,
    collection,
    nccl,
    nccl_rank,
    process,
    ranks,
    training,
    training_rank,
)
from busbar_bench.results import LOCAL, REMOTE


def test_sizes_and_counts_are_those_of_nccl_tests():
    # (count, values sent, values received) of 4 ranks and 1 KiB.
    found = {name: nccl_rank.shape(name, 1024, 4) for name in nccl_rank.COLLECTIVES}
    assert found["all_reduce"] == found["broadcast"] == found["reduce"] == (256, 256, 256)
    assert found["all_gather"] == (64, 64, 256)
    assert found["reduce_scatter"] == (64, 256, 64)
    assert found["alltoall"] == (64, 256, 256)
    factors = {name: f(4) for name, (_, _, _, f) in nccl_rank.COLLECTIVES.items()}
    assert factors["all_reduce"] == 1.5 and factors["broadcast"] == factors["reduce"] == 1
    assert factors["all_gather"] == factors["reduce_scatter"] == factors["alltoall"] == 0.75
    assert nccl_rank.bandwidth("all_reduce", 10**9, 0.5, 4) == (2.0, 3.0)
    assert list(nccl_rank.sizes(8, 64, 2)) == [8, 16, 32, 64]


def test_what_comes_of_a_collective_is_known():
    assert nccl_rank.expected("all_reduce", 1, 3, 5) == [(0, 5, 6.0)]
    assert nccl_rank.expected("reduce", 1, 3, 5) == []
    assert nccl_rank.expected("broadcast", 1, 3, 5) == [(0, 5, 1.0)]
    pieces = [(0, 2, 1.0), (2, 2, 2.0), (4, 2, 3.0)]
    assert nccl_rank.expected("all_gather", 1, 3, 2) == pieces
    assert nccl_rank.expected("alltoall", 2, 3, 2) == pieces


def told(*arguments):
    args = ranks.parser().parse_args([*arguments, "module", "--own", "1"])
    assert args.rest == ["--own", "1"]
    return [ranks.environment(rank, args, "store", 1) for rank in range(args.n)]


def test_ranks_are_told_who_they_are(monkeypatch):
    monkeypatch.delenv("NCCL_HOSTID", raising=False)
    monkeypatch.delenv("NCCL_IB_DISABLE", raising=False)
    plain = told("-n", "2")
    assert [env["LOCAL_RANK"] for env in plain] == ["0", "1"]
    assert [env["BENCH_DEVICE"] for env in plain] == ["0", "1"]
    assert all("NCCL_HOSTID" not in env for env in plain)
    two = told("-n", "4", "--hosts", "2")
    assert [env["NCCL_HOSTID"] for env in two] == ["host-0", "host-0", "host-1", "host-1"]
    assert all(env["NCCL_IB_DISABLE"] == "1" for env in two)
    one = told("-n", "2", "--one-gpu")
    assert [env["BENCH_DEVICE"] for env in one] == ["0", "0"]
    assert [env["NCCL_HOSTID"] for env in one] == ["host-0", "host-1"]


def test_a_rank_that_fails_ends_the_others(tmp_path, monkeypatch):
    (tmp_path / "one_fails.py").write_text(
        "import os, sys, time\ntime.sleep(600) if os.environ['RANK'] == '0' else sys.exit(5)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ranks.main(["-n", "2", "one_fails"]) == 5


def line(side_us, size, rank, wrong=0, in_place=False, name="all_reduce"):
    return {
        "collective": name, "bytes": size, "count": size // 4, "in_place": in_place,
        "rank": rank, "seconds": side_us * 1e-6, "queue_seconds": side_us * 1e-7, "wrong": wrong,
    }  # fmt: skip


def outcome(*lines, error=None):
    return {"lines": list(lines), "error": error}


def result(local, remote):
    settings = {"ranks": 2, "between": "x", "rounds": 1}
    return {
        "table": "nccl", "title": "t", "started": "now", "machine": {}, "settings": settings,
        "rows": [], "runs": {LOCAL: [outcome(*local)], REMOTE: [outcome(*remote)]},
    }  # fmt: skip


def test_bandwidth_and_time_are_held_against_bars():
    size = 1 << 20
    good = result([line(100, size, r) for r in (0, 1)], [line(100.5, size, r) for r in (0, 1)])
    assert not collection.failed([good])
    assert ("all_reduce, from 1 MiB", "pass", "busbw 0.995 of local, bar 0.99") in (
        nccl.verdicts(good)
    )
    slow = result([line(100, size, r) for r in (0, 1)], [line(110, size, r) for r in (0, 1)])
    assert collection.failed([slow])
    # 8 bytes: 10 and 40 us, of which a tenth is the queueing: 3 us more.
    late = result([line(10, 8, r) for r in (0, 1)], [line(40, 8, r) for r in (0, 1)])
    assert any("+3.0 us" in text and v == "fail" for _, v, text in nccl.verdicts(late))
    wrong = result([line(100, size, 0, wrong=2)], [line(100, size, 0)])
    assert (LOCAL, "fail", "2 wrong values") in nccl.verdicts(wrong)
    text = nccl.result_text(good)
    # Times of ranks are averaged, and 1 MiB in 100 us are 10.49 GB/s.
    assert "busbw (GB/s)" in text and "10.49" in text and "Avg bus bandwidth" in text
    assert "| all_reduce |" in nccl.markdown(good)


def rated(table, counts):
    settings = {"ranks": max(counts), "between": "what NCCL finds", "rounds": 1}
    each = {
        str(n): {
            side: [outcome(*({"rank": r, "rate": rate} for r in range(n)))]
            for side, rate in sides.items()
        }
        for n, sides in counts.items()
    }
    runs = {side: [o for e in each.values() for o in e[side]] for side in (LOCAL, REMOTE)}
    return {
        "table": table, "title": "t", "started": "now", "machine": {}, "settings": settings,
        "rows": [], "runs": runs, "counts": each,
    }  # fmt: skip


def test_scaling_is_beside_what_was_published():
    good = rated("scaling", {1: {LOCAL: 100, REMOTE: 99}, 2: {LOCAL: 99, REMOTE: 98}})
    assert not collection.failed([good]), training.verdicts(good)
    head, rows = training.grid(good)
    row = dict(zip(head, rows[1]))
    assert row["times one"] and row["VMware TCP"] == "1.07" and row["VMware PVRDMA"] == "1.57"
    assert training.gains(good, LOCAL)[2] == pytest.approx(1.98)
    bad = rated("scaling", {1: {LOCAL: 100, REMOTE: 100}, 2: {LOCAL: 100, REMOTE: 90}})
    said = {what: verdict for what, verdict, _ in training.verdicts(bad)}
    assert said == {"1 GPU(s)": "pass", "2 GPU(s)": "fail", "efficiency at 2": "fail"}
    assert "234.8" in training.result_text(good)


def counted(sent, steps, error=None):
    made = outcome({"rank": 0, "steps": steps}, error=error)
    return {**made, "busbar": {"bytes_sent": sent, "bytes_received": sent // 10}}


def test_what_a_step_sends_is_what_more_steps_send_more():
    long, short = [counted(9_000_000, 110)], [counted(8_000_000, 10)]
    assert training.bytes_a_step(long, short) == 11_000
    assert training.bytes_a_step(long, [counted(1, 10, error="no")]) is None
    assert training.bytes_a_step(long, [outcome({"rank": 0, "rate": 1})]) is None
    good = {**rated("scaling", {2: {LOCAL: 100, REMOTE: 100}}), "bytes_a_step": 11_000}
    assert ("a step", "pass", "0.011 MB cross the client's link, bar 1 MB") in (
        training.verdicts(good)
    )
    assert collection.failed([{**good, "bytes_a_step": 2_000_000}])


def test_what_ranks_end_with_is_compared_where_local_runs_agree():
    def run(last):
        return outcome(*({"rank": r, "rate": 100, "last": last} for r in (0, 1)))

    def said(local, remote):
        made = rated("scaling", {2: {LOCAL: 100, REMOTE: 100}})
        made["counts"]["2"] = {LOCAL: local, REMOTE: remote}
        return [verdict for name, verdict, _ in training.verdicts(made) if "values" in name]

    assert said([run("0x1"), run("0x1")], [run("0x1")]) == ["pass"]
    assert said([run("0x1"), run("0x1")], [run("0x2")]) == ["fail"]
    # One run does not show that runs agree, and two that do not are no measure.
    assert said([run("0x1")], [run("0x2")]) == ["note"]
    assert said([run("0x1"), run("0x3")], [run("0x1")]) == ["note"]


def test_what_is_spread_over_gpus_has_no_row_of_one_gpu_and_a_bar_of_its_own():
    args = cli.parser().parse_args(["run", "scaling", "--ranks", "4", "--network", "gpt-1.3b"])
    assert training.counts(args) == [4]
    args.network = "bert-large"
    assert training.counts(args) == [1, 2, 4]
    made = {**rated("scaling", {2: {LOCAL: 100, REMOTE: 97.5}}), "alone": False, "unit": "tokens"}
    assert ("2 GPU(s)", "pass", "0.975 of local, bar 0.97") in training.verdicts(made)
    text = training.result_text(made)
    assert "local tokens/s" in text and "VMware" not in text
    # A bar of bytes is that of averaged gradients alone.
    assert ("a step", "note", "9.000 MB cross the client's link") in training.verdicts(
        {**made, "bytes_a_step": 9e6}
    )


def test_a_ratio_comes_with_what_it_was_from_round_to_round():
    made = rated("scaling", {1: {LOCAL: 100, REMOTE: 99}})
    for side, speed in [(LOCAL, 50), (REMOTE, 52)]:
        made["counts"]["1"][side].append(outcome({"rank": 0, "rate": speed}))
    want = f"{75.5 / 75:.3f} of local (0.990 to 1.040), bar {training.BAR}"
    assert ("1 GPU(s)", "pass", want) in training.verdicts(made)


def test_horovods_lines_are_as_it_prints_them():
    assert training_rank.summary(*training_rank.spread([100.0, 110.0]), 2) == [
        "Img/sec per GPU: 105.0 +-9.8",
        "Total img/sec on 2 GPU(s): 210.0 +-19.6",
    ]


@pytest.mark.parametrize("mark", ["[1]<{}>:", "[1,1]<{}>: "])
def test_what_a_launcher_writes_before_lines_is_not_theirs(mark):
    out, err = mark.format("stdout"), mark.format("stderr")
    stats = 'busbar-stats: {"calls": 3, "server": "a:1"}'
    text = f"echo '{out}{{\"rate\": 5}}'; echo '{err}{stats}' >&2; echo '{err}{stats}' >&2"
    found = process.run(["sh", "-c", text])
    assert found["lines"] == [{"rate": 5}] and found["busbar"] == {"calls": 6}


def test_ranks_that_print_nothing_are_an_error():
    args = cli.parser().parse_args(["run", "horovod", "--rounds", "1"])
    assert nccl.alternating(args, ["true"])[LOCAL][0]["error"] == "the ranks printed no result"


def test_without_horovod_its_table_is_skipped(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["run", "horovod", "--smoke", "--out", str(tmp_path)]) == 0
    assert "skipped: horovod is not installed here" in capsys.readouterr().out
    assert json.loads((tmp_path / "horovod.json").read_text())["table"] == "horovod"


def test_the_whole_command(tmp_path, capsys, monkeypatch):
    fake = tmp_path / "busbar_fake.py"
    fake.write_text(
        "import json, os\n"
        "r = int(os.environ['RANK'])\n"
        f"print(json.dumps({line(5, 64, 0)!r} | {{'rank': r}}).replace('False', 'false'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    real = nccl.argv
    monkeypatch.setattr(nccl, "argv", lambda args, _, *rest: real(args, "busbar_fake"))
    argv = ["run", "nccl", "--smoke", "--ranks", "2", "--hosts", "2", "--out", str(tmp_path)]
    assert cli.main([*argv, "--remote-prefix", "env A={ranks}"]) == 0
    text = capsys.readouterr().out
    assert "emulated on one machine" in text and "all_reduce" in text
    assert cli.main(["report", str(tmp_path / "nccl.json")]) == 0
    assert cli.main(["run", "nccl", "--only-remote"]) == 2
    assert cli.main(["run", "nccl", "--collectives", "nothing"]) == 2
    done = json.loads((tmp_path / "nccl.json").read_text())["runs"][REMOTE][0]["command"]
    assert done.startswith("env A=2 ")
    assert (
        sys.executable
        in json.loads((tmp_path / "nccl.json").read_text())["runs"][LOCAL][0]["command"]
    )
