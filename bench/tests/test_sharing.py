"""Programs that share a device: what is made of the times at which their steps were done."""

import os
import time

import pytest

from busbar_bench import account, cli, figures, page, sharing, steady
from busbar_bench.sharing import Log, Part
from busbar_bench.workloads import nothing

ALONE = {"rate": 1000.0, "wait": 0.001, "items_per_step": 5}


def log(share, *runs, waited=(), **more):
    """A program's log; a run is a begin, an end and steps a second."""
    done = [
        begin + (i + 0.5) / rate
        for begin, end, rate in runs
        for i in range(round((end - begin) * rate))
    ]
    return Log(Part("x", share, **more), {"done": done, "waited": list(waited)}, ALONE)


def seen(logs, begin, end, samples=()):
    """A round: what the server said is (time, seconds of each program)."""
    pids = range(len(logs))
    said = [(at, dict(zip(pids, used))) for at, used in samples]
    return sharing.Seen(logs, begin, end, account.Account(said, pids))


def test_what_a_program_had_is_its_work_over_its_work_alone():
    one = log(0.5, (0, 10, 400))
    assert one.had(0, 10) == pytest.approx(0.4)
    assert sharing.together(seen([one, log(0.5, (0, 10, 580))], 0, 10)) == pytest.approx(0.98)
    assert sharing.shares([log(0.5), log(0.5)], 0, 10) is None


def test_shares_that_are_right_on_the_whole_may_be_wrong_in_a_second():
    turns = [(t, t + 1, 900 if t % 2 else 100) for t in range(10)]
    other = [(t, t + 1, 100 if t % 2 else 900) for t in range(10)]
    both = seen([log(0.5, *turns), log(0.5, *other)], 0, 10)
    assert sharing.off_whole_work(both) == pytest.approx(0, abs=1e-3)
    assert sharing.off_1s_work(both) == pytest.approx(0.4, abs=1e-3)
    # Nobody did anything: not a fair share, but none.
    assert sharing.off_1s_work(seen([log(0.5), log(0.5)], 0, 10)) is None
    # The same by time, where each has a second of its own, and windows begin at any look.
    each = [(t / 5, (t // 10 + min(t % 10 / 5, 1), t // 10 + max(t % 10 / 5 - 1, 0)))
            for t in range(51)]  # fmt: skip
    both = seen([log(0.5), log(0.5)], 0, 10, each)
    assert sharing.off_whole(both) == pytest.approx(0, abs=1e-3)
    assert sharing.off_1s(both) == pytest.approx(0.5, abs=1e-3)


def test_weights_need_not_make_one():
    both = seen([log(0.6, (0, 5, 750)), log(0.2, (0, 5, 250))], 0, 5)
    assert sharing.off_whole_work(both) == pytest.approx(0, abs=1e-3)


def test_time_is_the_servers_count_and_is_held_against_the_devices_clock():
    # Both did half of their work alone: but the device was faster at it than it is alone.
    logs = [log(0.5, (0, 10, 550)), log(0.5, (0, 10, 500))]
    for each, pace in zip(logs, (0.9e-3, 1e-3)):
        # Some steps were cut by a turn of the other's.
        each.took = [(i, 0.02 if i % 80 == 0 else pace) for i in range(0, 5000, 8)]
    samples = [(t / 5, (t * 0.099, t * 0.101)) for t in range(51)]
    both = seen(logs, 0, 10, samples)
    assert sharing.off_whole(both) == pytest.approx(0.005, abs=1e-6)
    assert sharing.off_whole_work(both) == pytest.approx(0.55 / 1.05 - 0.5)
    assert sharing.told(both) == pytest.approx(0.505 - 0.5, abs=1e-6)
    assert sharing.filled(both) == pytest.approx(0.995)
    # Steps as long as turns say nothing, those that the device waits for neither; and without
    # looks at the server nothing is said of time.
    logs[1].took = [(i, 0.027) for i in range(9)]
    assert sharing.filled(both) is None
    logs[1].took = [(i, 0.001 * (1 + i / 20)) for i in range(40)]
    assert sharing.told(both) == pytest.approx(0, abs=1e-6) and sharing.filled(both) is None
    blind = seen(logs, 0, 10)
    assert sharing.off_1s(blind) is sharing.off_whole(blind) is sharing.told(blind) is None


def test_what_a_server_says_is_read_as_it_comes():
    document = """[
  {"server": "a", "status": {"sessions": [
    {"pid": 1, "time": [{"used_ms": 250}]}, {"pid": 2, "time": [null]}, {"pid": 3}
  ]}},
  {"server": "b", "error": "away"}
]
"""
    lines = [(0.5 + i, line) for i, line in enumerate((document * 2).splitlines(keepends=True))]
    found = list(account.documents(lines))
    assert [at for at, _ in found] == [5.5, 11.5]
    assert account.used(found[0][1]) == {1: 0.25}
    command = account.watch_command("unshare -m busbar run --server {server} --", "host:1")
    assert command == ["unshare", "-m", "busbar", "ps", "--json", "--watch", "0.2",
                       "--server", "host:1"]  # fmt: skip
    assert account.watch_command("elsewhere --", None) is None


def test_cores_are_those_of_all_that_serves(tmp_path):
    def process(pid, ticks, *command):
        (tmp_path / pid).mkdir(exist_ok=True)
        (tmp_path / pid / "cmdline").write_bytes(b"\0".join(command) + b"\0")
        head = f"{pid} (bus bar) S" + " 0" * 10
        (tmp_path / pid / "stat").write_text(f"{head} {ticks} {ticks} 0")

    second = os.sysconf("SC_CLK_TCK")
    process("10", second, b"/opt/busbar", b"serve")
    process("11", 2 * second, b"busbar", b"worker")
    process("12", 5 * second, b"busbar", b"run", b"--", b"python")
    process("13", 5 * second, b"python", b"busbar")
    before = account.cpu_seconds(tmp_path)
    assert before == {"10": 2.0, "11": 4.0}
    cores = account.Cores()
    cores.samples = [(0, {}), (1, before), (2, before), (3, {"10": 3.0, "11": 4.0, "14": 2.0})]
    assert cores.taken(0.5, 3.5) == pytest.approx(1.5)
    assert cores.taken(2.5, 3.5) is None


def test_how_late_a_machine_wakes_a_sleeper_is_told():
    with account.Wakes() as wakes:
        begin = time.monotonic()
        while len(wakes.samples) < 3:
            time.sleep(account.NAP)
    assert sharing.spread(wakes.late(begin, time.monotonic())) is not None
    wakes.samples = [(at, at / 1000) for at in range(101)]
    late = sharing.spread(wakes.late(0, 100))
    assert [late[of] for of in ("p50", "p99", "p100")] == pytest.approx(
        [0.0505, 0.09901, 0.1], rel=0.01
    )
    assert sharing.spread(wakes.late(200, 300)) is None


def test_a_neighbour_that_comes_back_is_looked_at_from_then_on():
    logs = [log(0.75, (0, 10, 800)), log(0.25, (5.1, 10, 250), late=0.5)]
    # It began 100 ms after it should have: 420 of 500 ms are left.
    assert sharing.back_later(seen(logs, 0, 10)) == pytest.approx(0.84, abs=0.02)
    assert sharing.back(seen(logs, 0, 10)) == 0
    # It had nothing for a while, but more than its share before.
    logs[1] = log(0.25, (5.0, 5.02, 1000), (5.065, 10, 250), late=0.5)
    assert sharing.back(seen(logs, 0, 10)) == pytest.approx(1.03, abs=0.02)


def test_the_wait_beside_a_trainer_is_what_is_beyond_alone_and_a_kernel():
    paced = log(0.1, (0, 5, 20), waited=[0.002] * 98 + [0.005] * 2, every=0.05)
    found = sharing.late(seen([log(0.9, (0, 5, 900)), paced], 0, 5))
    assert found == pytest.approx(0.005 - 0.001 - 0.0002)


def test_a_rate_alone_does_not_depend_on_how_many_steps_fit():
    for begin in (0.001, 0.014, 0.026):
        steps = [begin + i * 0.027 for i in range(int((2 - begin) / 0.027) + 1)]
        assert sharing.rate_of(steps, 2.0) == pytest.approx(1 / 0.027)
    assert sharing.rate_of([0.5], 2.0) == 0.5


def test_the_most_uneven_of_many_counts():
    logs = [log(0.25, (0, 4, rate)) for rate in (250, 250, 250, 200)]
    assert sharing.uneven(seen(logs, 0, 4)) == pytest.approx(1 - 200 / 237.5, abs=1e-2)


def test_every_round_is_held_to_the_bar():
    rounds = [
        {"values": {"off-1s": off, "sum": 0.99}, "points": [[0.5], [0.5]]} for off in (0.01, 0.03)
    ]
    scene = {"name": "1:1", "parts": ["a", "b"], "shares": [0.5, 0.5], "errors": [],
             "bars": [["off-1s", 0.02], ["sum", 0.985]], "rounds": rounds}  # fmt: skip
    result = {"scenes": [scene]}
    assert [row[-1] for row in sharing.judge(result)] == ["fail", "pass"]
    assert sharing.judged_rows(result)[0][-1] == "missed by 1 points"
    rounds[0]["values"]["sum"] = None
    assert [row[-1] for row in sharing.judge(result)] == ["fail", "no data"]
    scene["bars"][0][1] = None
    assert [row[-1] for row in sharing.judge(result)] == ["shown", "no data"]
    assert [verdict for _, verdict, _ in sharing.verdicts(result)] == ["no data"]
    scene["errors"] = ["round 2: it ended"]
    assert {row[-1] for row in sharing.judge(result)} == {"error"}
    assert {row[-1] for row in sharing.judge({"scenes": [{**scene, "rounds": []}]})} == {"error"}


def test_a_share_is_asked_before_the_program():
    prefix = "busbar run --server {server} --"
    quarter = sharing.Part("gemm", 0.25, dense=True)
    asked = "busbar run --server '{server}' -p 0.25 --mode dense --"
    assert sharing.with_flags(prefix, quarter.asks) == asked
    assert sharing.with_flags(prefix, sharing.Part("gemm").asks) == prefix


def test_every_scene_has_measures_that_fit_it():
    for scene in sharing.SCENES:
        assert all(bar.measure in sharing.MEASURES for bar in scene.bars), scene.name
        assert sum(part.share or 0 for part in scene.parts) <= 1 + 1e-9, scene.name
        wanted = {bar.measure for bar in scene.bars}
        assert ("back" in wanted) == any(0 < part.late < 1 for part in scene.parts)
        assert ("crowd" in wanted) == any(part.late == 1 for part in scene.parts)
        assert ("late" in wanted) == any(part.every for part in scene.parts)
        assert any(bar.limit is not None for bar in scene.bars), scene.name


def test_a_paced_program_makes_a_step_at_each_time():
    begin = steady.time.monotonic()
    done, waited = steady.pace(nothing.Nothing(), begin, begin + 0.19, 0.05)
    assert 1 <= len(done) <= 4 and len(waited) == len(done)
    assert all(wait >= nothing.STEP_S for wait in waited)
    assert all(a <= b for a, b in zip(done, done[1:]))


RUN = """#!/bin/sh
while [ "$1" != -- ] && [ "$1" != --watch ]; do shift; done
[ "$1" = --watch ] || { shift; exec "$@"; }
# It counts for each child of the runner, all alike.
while sleep "$2"; do
  n=$((n + 100))
  echo '[{"status": {"sessions": ['
  for pid in $(pgrep -P "$PPID"); do
    echo "$comma{\\"pid\\": $pid, \\"time\\": [{\\"used_ms\\": $n}]}"; comma=,
  done
  comma=; echo ']}}'; echo ']'
done
"""


@pytest.fixture
def prefix(tmp_path):
    """A command that takes options as `busbar run` and `busbar ps` do: it runs what is behind the
    --, and says again and again what each program has used."""
    script = tmp_path / "busbar"
    script.write_text(RUN)
    script.chmod(0o755)
    return f"{script} run --"


def test_scenes_run_from_start_to_end(prefix, tmp_path, capsys, monkeypatch):
    parts = (Part("nothing", 0.5), Part("nothing", 0.5))
    bars = (sharing.Bar("off", 0.01), sharing.Bar("sum", 0.0), sharing.Bar("off, work"))
    scenes = (
        sharing.Scene("two", parts, bars),
        sharing.Scene("none", (Part("no-such-workload"),), (sharing.Bar("sum", 0.0),)),
    )
    monkeypatch.setattr(sharing, "SCENES", scenes)
    argv = ["run", "sharing", "--remote-prefix", prefix, "--rounds", "1", "--seconds", "1"]
    assert cli.main([*argv, "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "met" in said.out and "no workload is named 'no-such-workload'" in said.out
    (result,) = cli.load_any([str(tmp_path / "sharing.json")])
    assert [row[-1] for row in sharing.judge(result)] == ["pass", "pass", "shown", "error"]
    assert figures.svg(result).startswith("<svg") and "no-such-workload" in page.page(result)
    assert "missed" not in sharing.markdown(result)


def test_a_peer_has_each_scene_in_turn_and_no_bar(prefix, tmp_path, monkeypatch):
    bars = (sharing.Bar("sum", 9.0),)
    scenes = (sharing.Scene("one", (Part("nothing", 0.5),), bars),)
    monkeypatch.setattr(sharing, "SCENES", scenes)
    argv = ["run", "sharing", "--remote-prefix", prefix, "--rounds", "1", "--seconds", "1"]
    argv += ["--peer", f"before={prefix}", "--server", "a:1", "--peer-server", "before=b:1"]
    assert cli.main([*argv, "--out", str(tmp_path)]) == 1
    (result,) = cli.load_any([str(tmp_path / "sharing.json")])
    rows = [(row[0], row[-1]) for row in sharing.judge(result)]
    assert rows == [("one", "fail"), ("one, before", "shown")]
    assert [of["side"] for of in result["alone"][0]] == ["", "before"]
    assert "nothing, before: " in sharing.result_text(result)
    args = cli.parser().parse_args(argv)
    args.peer, args.peer_server = dict(args.peer), dict(args.peer_server)
    assert [side.server for _, side in sharing.sides_of(args)] == ["a:1", "b:1"]


def test_what_does_not_go_together_is_said(prefix, capsys):
    assert cli.main(["run", "sharing"]) == 2
    assert "ends with --" in capsys.readouterr().err
    argv = ["run", "sharing", "--remote-prefix", prefix, "--only", "no such scene"]
    assert cli.main(argv) == 2
    assert "no scene is left" in capsys.readouterr().err
