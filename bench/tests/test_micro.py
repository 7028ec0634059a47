"""The micro-benchmarks: the C program over a driver that does nothing, and what is made of it."""

import json
import shutil

import pytest

from busbar_bench import cli, micro, process

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A folder with a libcuda.so.1 that does nothing."""
    folder = tmp_path_factory.mktemp("stub")
    source = __file__.replace("test_micro.py", "libcuda_stub.c")
    argv = ["cc", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), source]
    outcome = process.run(argv)
    assert outcome["error"] is None, outcome
    return str(folder)


@needs_cc
def test_every_mode_prints_its_numbers(stub, tmp_path):
    driver = micro.build(str(tmp_path), "driver")
    wanted = {
        ("launch", "8", "3"): ("p50_ns", "p99_ns"),
        ("sustained", "0.05", "2"): ("per_s",),
        ("sync", "20"): ("launch_sync_p50_ns", "idle_sync_p50_ns"),
        ("steps", "10", "5"): ("step_ns",),
        ("memory", "1", "10"): ("peak_kib", "started_kib"),
        ("context", "1"): ("rss_kib",),
        ("copies", "65536", "3"): ("sizes",),
    }
    for mode, fields in wanted.items():
        outcome = process.run([driver, *mode], env={"LD_LIBRARY_PATH": stub})
        assert outcome["error"] is None, outcome
        (line,) = outcome["lines"]
        assert line["mode"] == mode[0]
        assert all(field in line for field in fields)
    assert [entry["bytes"] for entry in line["sizes"]] == [4096, 16384, 65536]
    assert line["intact"] is True


@needs_cc
def test_bad_arguments_and_a_missing_driver_are_errors(stub, tmp_path):
    driver = micro.build(str(tmp_path), "driver")
    for mode in ([], ["dance", "1", "1"], ["sync", "0"]):
        assert process.run([driver, *mode], env={"LD_LIBRARY_PATH": stub})["status"] == 2


@needs_cc
def test_a_call_of_each_kind_has_its_cost_or_is_refused(stub, tmp_path, capsys, monkeypatch):
    program = micro.build(str(tmp_path), "calls")
    env = {"LD_LIBRARY_PATH": stub}
    (line,) = process.run([program, "0.001"], env=env)["lines"]
    refused = [entry["name"] for entry in line["calls"] if entry["done_ns"] is None]
    assert refused == ["write a value"] and len(line["calls"]) > 40
    assert all(e["call_ns"] <= e["done_ns"] for e in line["calls"] if e["done_ns"] is not None)
    (line,) = process.run([program, "0.001", "launch", "record"], env=env)["lines"]
    assert [entry["name"] for entry in line["calls"]] == ["launch", "record"]
    assert process.run([program], env=env)["status"] == 2
    # In a table the others are held against the first.
    found = {"local": {"launch": 200.0}, "remote": {"launch": 300.0, "record": 100.0}}
    for side, of in found.items():
        found[side] = {"calls": {kind: {"done_ns": ns} for kind, ns in of.items()}}
    text = "\n".join(micro.calls_text(found, list(found)))
    assert "200" in text and "300 (1.50)" in text and "refused" in text and "100" in text
    monkeypatch.setenv("LD_LIBRARY_PATH", stub)
    cli.main(["micro", "--smoke", "--remote-prefix", "env", "--parts", "calls"])
    assert "fork to a stream and join" in capsys.readouterr().out


@needs_cc
def test_the_whole_command(stub, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", stub)
    argv = ["micro", "--smoke", "--remote-prefix", "env", "--parts", "launch", "copies", "steps"]
    cli.main([*argv, "--max-bytes", "16384", "--out", str(tmp_path)])
    text = capsys.readouterr().out
    assert "launch_8_p50_ns" in text and "pinned_h2d" in text and "queued launch, 1" in text
    assert (tmp_path / "micro.json").exists()


def outcome(line, counters=None):
    return {"lines": [line], "error": None, "busbar": counters, "wall_s": 1.0}


def test_counters_of_a_step_come_from_a_difference():
    other = {"name": "x", "ok": True}
    few = outcome({"steps": 20}, {"round_trips": 30, "bytes_sent": 1000, **other})
    many = outcome({"steps": 120}, {"round_trips": 130, "bytes_sent": 6000, **other})
    assert micro.per_step(few, many) == {"round_trips": 1.0, "bytes_sent": 50.0}
    assert micro.per_step(few, outcome({"steps": 120})) is None
    head = {"process": True}
    few["lines"].insert(0, head)
    many["lines"].insert(0, head)
    assert micro.per_workload_step(few, many)["round_trips"] == 1.0


def result(link, **remote):
    summary = micro.summarise({})
    copies = [{"bytes": 1 << 24, "pageable_h2d": 0.58, "pageable_d2h": 0.59,
               "pinned_h2d": 0.57, "pinned_d2h": 0.59}]  # fmt: skip
    ours = {**summary, "launch_1_p50_ns": 400.0, "sustained_1_per_s": 1e5, "copies": copies}
    return {
        "summary": {"local": {**summary, "first_result_warm_s": 1.0}, "remote": {**ours, **remote}},
        "settings": {"link": link},
    }


def test_the_way_that_copies_took_comes_from_the_counters():
    counted = {"bytes_shared": 900, "bytes_sent": 60, "bytes_received": 40}
    outcomes = [outcome({}, counted), outcome({}), outcome({}, {"bytes_shared": 0})]
    assert micro.shared_parts(outcomes) == [0.9]


def test_bars():
    judged = {name: verdict for name, _, _, verdict in micro.judge(result("vmxnet3-10g"))}
    assert judged == {
        "launch_ns_1": "pass",
        "launch_ns_8": "no data",
        "launches_per_s": "fail",
        "link_part": "pass",
    }
    judged = {name: v for name, _, _, v in micro.judge(result(None, first_result_warm_s=1.2))}
    assert judged["pinned_shared_gb_s"] == "fail"
    assert judged["first_result_extra_s"] == "fail"
    judged = {name: v for name, _, _, v in micro.judge(result(None, copies_shared_part=0.9))}
    assert judged["pinned_shared_gb_s"] == "fail" and "pinned_loopback_gb_s" not in judged
    assert micro.judge({"summary": {"local": {}}, "settings": {"link": None}}) == []


def test_copies_on_one_host_have_the_bar_of_the_way_they_take():
    over_tcp = result(None)
    over_tcp["settings"]["shared"] = False
    names = [name for name, *_ in micro.judge(over_tcp)]
    assert "pinned_loopback_gb_s" in names and "pinned_shared_gb_s" not in names


def test_memory_is_held_against_a_bare_context():
    found = result(None, memory_peak_mib=65.0, worker_mib=900.0)
    found["summary"]["local"]["context_mib"] = 700.0
    judged = {name: (value, verdict) for name, value, _, verdict in micro.judge(found)}
    assert judged["client_memory_mib"] == (65.0, "fail")
    assert judged["worker_memory_mib"] == (200.0, "pass")
    missed = [row for row in micro.judged_rows(found) if "client's memory" in row[0]]
    assert missed[0][3] == "missed by 1"


@needs_cc
def test_a_held_program_is_looked_at_while_it_runs(stub, tmp_path):
    driver = micro.build(str(tmp_path), "driver")
    env = {"LD_LIBRARY_PATH": stub}
    outcome = process.hold([driver, "memory", "1", "10"], env=env, look=lambda: "seen")
    assert outcome["error"] is None and outcome["seen"] == "seen"
    assert outcome["lines"][0]["intact"] is True
    assert process.hold(["/nowhere/driver"])["error"].startswith("cannot start")
    assert process.hold(["true"])["error"] == "it printed no JSON"
    assert "JSON" in process.hold(["sleep", "600"], timeout=0.2)["error"]


def test_statistics_line_of_the_client():
    text = 'noise\nbusbar-stats: {"round_trips": 3}\n'
    assert process.stats_of(text) == {"round_trips": 3}
    two = [{"server": f"{n}:1", "sent": n, "by_call": [n]} for n in (1, 2)]
    text = "\n".join(process.STATS_MARK + json.dumps(each) for each in two)
    assert process.stats_of(text) == {"sent": 3, "by_call": [1, 2]}
    assert process.stats_of("busbar-stats: nonsense") is None
    assert process.stats_of("busbar-stats: [1]") is None
    assert process.stats_of("") is None


def test_an_error_is_said_once(capsys):
    outcomes = []
    for error in ("no GPU", "no GPU", None, "no GPU", "another"):
        micro.keep(outcomes, {"error": error}, "remote, launch_1")
    said = capsys.readouterr().err
    assert said.count("no GPU") == 1 and said.count("another") == 1 and len(outcomes) == 5
