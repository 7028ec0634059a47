"""All tables in one sitting, off switches, and joining what was measured apart."""

import json
import shutil

import pytest
from test_results import sample

from busbar_bench import cli, collection, figures, page, switches
from busbar_bench.published import SWITCHES
from busbar_bench.spec import parse

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def micro_result(value):
    summary = {"launch_1_p50_ns": value, "copies": [], "step": None, "workload_step": None,
               "launch_8_p50_ns": value, "sustained_1_per_s": 4e5, "first_result_warm_s": None,
               "launch_sync_p50_ns": 2e5, "idle_sync_p50_ns": 30.0, "spread": {}}  # fmt: skip
    return {"table": "micro", "summary": {"remote": summary}, "machine": {}, "started": "now",
            "settings": {"link": None, "parts": ["launch", "sustained"]}}  # fmt: skip


def test_time_is_shared_and_nothing_gets_none():
    found = collection.shares(["radium-small", "switches"], 1900)
    assert sum(found.values()) == pytest.approx(1900)
    assert found["switches"] > found["radium-small"]
    assert collection.shares(["radium-small"], 1)["radium-small"] == collection.LEAST_S


def test_each_name_can_be_measured():
    known = {"micro-link", "micro-tcp", "micro-shared", *cli.TABLES}
    assert set(collection.NAMES) == known


def test_joined_results_come_apart_again():
    found = [sample(), micro_result(700.0)]
    joined = json.loads(json.dumps(collection.join(found)))
    assert collection.parts(joined) == json.loads(json.dumps(found))
    assert collection.parts(found[0]) == [found[0]]


def test_the_summary_names_what_was_missed():
    text = collection.summary([sample((90.0, 190.0)), micro_result(700.0)])
    assert "missed by 0.075" in text and "missed by 200" in text
    assert text.startswith("1 bars met, 3 not")
    assert collection.failed([micro_result(700.0)])
    assert not collection.failed([sample()])


def test_the_documents_have_each_result():
    found = [sample(), micro_result(700.0)]
    text = collection.markdown(found)
    assert "| alexnet:32:fp32 |" in text and "missed by 200" in text
    text = page.pages(found, "all")
    assert text.count("<h2 ") == 2 and text.count("<script") == 1


def test_report_joins_files(tmp_path, capsys):
    for name, result in (("a", sample()), ("b", micro_result(100.0))):
        (tmp_path / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
    argv = ["report", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--out", str(tmp_path)]
    assert cli.main(argv) == 0
    assert cli.main(["report", str(tmp_path / "all.json")]) == 0
    assert "queued launch, 1 thread" in capsys.readouterr().out
    assert (tmp_path / "all.md").exists() and (tmp_path / "all.html").exists()
    assert cli.main(["compare", *[str(tmp_path / "all.json")] * 2]) == 0
    (tmp_path / "c.json").write_text('{"table": "x"}', encoding="utf-8")
    assert cli.main(["report", str(tmp_path / "c.json")]) == 2


def test_each_switch_is_a_side_of_its_own():
    sides = switches.peers_of("busbar run --server {server} --")
    assert len(sides) == len(SWITCHES)
    assert sides["no QUEUE"] == "env BUSBAR_QUEUE=0 busbar run --server {server} --"


def test_switches_show_what_each_buys():
    result = sample()
    result["settings"]["sides"]["no QUEUE"] = "env"
    spec = str(parse("alexnet:32:fp32"))
    slow = {"spec": spec, "rate": 30.0, "unit": "images/s", "losses": [], "finite": True}
    result["rows"][0]["sides"]["no QUEUE"] = [slow, slow]
    summary = {"remote": micro_result(100.0)["summary"]["remote"]}
    summary["no QUEUE"] = {**summary["remote"], "launch_1_p50_ns": 2e5}
    result["micro"] = {"summary": summary}
    result["copies"] = {"summary": summary}
    head, rows = switches.grid(result)
    assert head[1] == "alexnet:32:fp32, images/s"
    assert rows[0][0] == "everything on" and rows[0][1] == "150 (x1.00)"
    assert rows[1][0] == "without queued launches" and rows[1][1] == "30 (x0.20)"
    assert "200 (x2000.00)" in rows[1]
    assert "queued launches" in switches.result_text(result)
    assert figures.svg(result) == "" and "queued launches" in page.page(result)


def test_a_time_limit_ends_with_the_first_block(capsys):
    argv = ["run", "nothing", "--steps", "100000000", "--warmup", "1", "--rounds", "1"]
    assert cli.main([*argv, "--seconds", "0.05", "--remote-prefix", "env"]) == 0
    assert "nothing" in capsys.readouterr().out


def test_switches_need_something_remote(capsys):
    assert cli.main(["run", "switches"]) == 2
    assert "nothing to switch off" in capsys.readouterr().err


def test_all_takes_what_a_table_needs():
    parse = cli.parser().parse_args
    of_jobs = {"ranks", "hosts", "one_gpu", "only_remote", "collectives", "most_bytes"}
    lacks = vars(parse(["run", "llm"])).keys() - vars(parse(["all"])).keys()
    assert lacks == {"table", *of_jobs, "network", "launcher"}
