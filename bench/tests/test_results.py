"""Rows, verdicts, text, pages and comparisons from made-up processes."""

import copy
import json
import pathlib
import re
import sys

import pytest

from busbar_bench import cli, collection, compare, figures, page, report, results, sharing
from busbar_bench.published import Row, mark
from busbar_bench.spec import parse


def line(spec, rate, step_ms=10.0, losses=("0x1p+0",), **more):
    return {"spec": spec, "rate": rate, "unit": "images/s", "step_ms": step_ms,
            "losses": list(losses), "finite": True, **more}  # fmt: skip


def process(side, round_index, *lines, link=None, error=None, specs=()):
    return {
        "side": side,
        "round": round_index,
        "link": link,
        "lines": list(lines),
        "specs": [entry["spec"] for entry in lines if "spec" in entry] + list(specs),
        "error": error,
        "wall_s": 1.0,
    }


A, B = "alexnet:32:fp32", "resnet56:32:fp32"
SIDES = ["local", "remote"]
LINK = "vmxnet3-10g"


def row_of(processes, link=LINK, **more):
    settings = {"bar": 1.0, **more}
    spec = settings.pop("spec", A)
    return results.row_result(Row(parse(spec), **settings), processes, SIDES, link)


def two_rounds(remote):
    return [
        process("local", 0, line(A, 100.0)),
        process("remote", 0, line(A, remote[0]), link=LINK),
        process("remote", 1, line(A, remote[1]), link=LINK),
        process("local", 1, line(A, 200.0)),
    ]


def test_ratio_is_taken_round_by_round():
    row = row_of(two_rounds([110.0, 190.0]))
    assert row["ratios"]["remote"]["per_round"] == [1.1, 0.95]
    assert row["verdict"] == "pass" and row["losses_equal"] is True
    assert row_of(two_rounds([90.0, 190.0]))["verdict"] == "fail"
    assert row_of(two_rounds([90.0, 190.0]), bar=None)["verdict"] == "no bar"


def test_a_failure_is_an_error_with_its_reason():
    broken = process("remote", 0, {"spec": A, "error": "RuntimeError: no"}, link=LINK)
    row = row_of([process("local", 0, line(A, 1.0)), broken])
    assert row["verdict"] == "error" and "RuntimeError: no" in row["reason"]
    died = process("remote", 0, link=LINK, error="exit status 139", specs=[A])
    row = row_of([process("local", 0, line(A, 1.0)), died])
    assert row["verdict"] == "error" and "139" in row["reason"]
    nan = process("remote", 0, line(A, 1.0, finite=False), link=LINK)
    nan["lines"][0]["finite"] = False
    row = row_of([process("local", 0, line(A, 1.0)), nan])
    assert row["verdict"] == "error" and "not finite" in row["reason"]


def test_without_a_remote_side_there_is_no_verdict():
    assert row_of([process("local", 0, line(A, 1.0))])["verdict"] == "no data"


def test_each_link_has_its_own_remote_runs_and_shares_the_local_ones():
    processes = [
        process("local", 0, line(A, 100.0)),
        process("remote", 0, line(A, 50.0), link="roce-100g"),
        process("remote", 0, line(A, 25.0), link="ethernet-10g"),
    ]
    assert row_of(processes, "roce-100g")["ratios"]["remote"]["median"] == 0.5
    assert row_of(processes, "ethernet-10g")["ratios"]["remote"]["median"] == 0.25


def test_round_trips_are_allowed_so_many_and_no_more():
    def at(step_ms):
        processes = [
            process("local", 0, line(A, 1.0, step_ms=5.0)),
            process("remote", 0, line(A, 1.0, step_ms=step_ms), link=LINK),
        ]
        return row_of(processes, kind="round-trips", trips=1.2, bar=None)["verdict"]

    # 1.2 round trips of 160 us.
    assert at(5.19) == "pass"
    assert at(5.20) == "fail"


def test_a_row_fed_from_the_host_is_held_against_the_link():
    size = 3 * 224 * 224
    limit = 9.4e9 / 8 / size
    processes = [
        process("local", 0, line(A, limit * 2)),
        process("remote", 0, line(A, limit * 0.98), link="ethernet-10g"),
    ]
    row = row_of(processes, "ethernet-10g", kind="link", bytes_per_item=size, bar=0.97)
    assert row["ratios"]["remote"]["median"] == pytest.approx(0.98)
    assert row["verdict"] == "pass"


def test_losses_decide_where_they_are_the_question():
    def verdict(losses):
        processes = [
            process("local", 0, line(A, 1.0)),
            process("remote", 0, line(A, 1.0, losses=losses), link=LINK),
        ]
        return row_of(processes, kind="losses", bar=None)["verdict"]

    assert verdict(["0x1p+0"]) == "pass"
    assert verdict(["0x1.0000000000001p+0"]) == "fail"


def result_of(rows, processes=()):
    return {
        "format": "busbar-bench/1",
        "table": "radium-small",
        "title": "a <table>",
        "started": "2026-01-01T00:00:00+00:00",
        "command": [],
        "machine": {"cpu": "</script>", "gpus": []},
        "settings": {"rounds": 2, "steps": 100, "warmup": 10,
                     "sides": {"local": "", "remote": "busbar run --"}},
        "links": [],
        "rows": rows,
        "processes": list(processes),
        "start_up": results.start_ups(processes),
    }  # fmt: skip


def sample(remote=(110.0, 190.0)):
    processes = two_rounds(remote)
    marks = (mark("Radium", 0.42), mark("Bitfusion", 0.15, 0.9, "range"))
    return result_of([row_of(processes, marks=marks)], processes)


def test_start_up_keeps_the_first_apart():
    processes = [
        process("local", i, {"process": True, "import_s": s}, line(A, 1.0, warmup_s=s))
        for i, s in enumerate((9.0, 3.0, 4.0))
    ]
    found = results.start_ups(processes)["local"]
    assert found["import_s"]["first"] == 9.0 and found["import_s"]["median"] == 4.0
    assert found["warmup_s"]["all"] == [9.0, 3.0, 4.0]


def test_text_shows_ours_beside_the_published():
    text = report.result_text(sample())
    assert "1.025 [0.950, 1.100]" in text
    assert "Radium 0.42, Bitfusion 0.15-0.90 (range)" in text
    header, rule = text.splitlines()[2:4]
    assert len(rule) >= len(header.rstrip())


def test_columns_line_up():
    text = report.table_text(["name", "n"], [["a", 1], ["long name", 12345], ["[b]", "x" * 200]])
    lines = text.splitlines()
    assert [line.split() for line in lines if "\u2500" not in line] == [
        ["name", "n"],
        ["a", "1"],
        ["long", "name", "12345"],
        ["[b]", "x" * 200],
    ]
    assert len({len(line) for line in lines[2:]}) == 1


def test_a_table_needs_no_library(monkeypatch):
    # What `import` finds here is that there is none.
    monkeypatch.setitem(sys.modules, "rich", None)
    assert report.table_text(["name", "n"], [["a", 1]]) == "name\tn\na\t1"


def test_schema_accepts_results_and_names_what_is_missing():
    result = json.loads(json.dumps(sample()))
    assert results.check(result) is result
    for name in ("rows", "machine", "format"):
        broken = {k: v for k, v in result.items() if k != name}
        with pytest.raises(ValueError, match=name):
            results.check(broken)
    broken = copy.deepcopy(result)
    del broken["rows"][0]["ratios"]
    with pytest.raises(ValueError, match="row 1 lacks 'ratios'"):
        results.check(broken)
    with pytest.raises(ValueError):
        results.check([])


def test_the_page_is_self_contained_and_escaped():
    text = page.page(sample())
    assert not re.search(r'src=|href="[^#]|@import|url\((?!#)', text)
    assert text.count("<svg") == 1
    assert "a <table>" not in text and "a &lt;table&gt;" in text
    # The machine's text cannot end the script element early.
    assert text.count("</script>") == 1
    raw = re.search(r'id="raw">(.*?)</script>', text, re.DOTALL).group(1)
    assert json.loads(raw)["machine"]["cpu"] == "</script>"


def texts_of(drawn):
    return [text.get_text() for ax in drawn.axes for text in ax.get_yticklabels()]


def test_the_plot_shows_everything_and_again_what_is_near_1():
    result = sample(remote=(99.0, 101.0))
    drawn = figures.figure(result)
    assert len(drawn.axes) == 2 and texts_of(drawn)[0] == A
    whole, near = (ax.get_xlim() for ax in drawn.axes)
    assert whole[0] == 0 and whole[1] > 1 and near[0] > 0.45 and near[1] < 2
    labels = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert sorted(labels) == ["bar", "published: Bitfusion", "published: Radium", "remote"]
    assert "remote: 0.75 (published: Radium" in figures.description(result)


def texts_in(drawn):
    """Every text of a figure that is to be seen, and where it is."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(figures.LOOK):
        canvas = FigureCanvasAgg(drawn)
        canvas.draw()
        renderer = canvas.get_renderer()
        texts = [*drawn.legends[0].get_texts()]
        axes = [each for ax in drawn.axes if ax.axison for each in (ax, *ax.child_axes)]
        for ax in axes:
            texts += [ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title]
            for axis in (ax.xaxis, ax.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = zip(axis.get_ticklocs(), axis.get_ticklabels())
                texts += [text for at, text in ticks if low <= at <= high]
        shown = [text for text in texts if text.get_visible() and text.get_text()]
        return [(text.get_text(), text.get_window_extent(renderer)) for text in shown]


def assert_readable(drawn):
    """No text covers another, and none is cut off."""
    found = texts_in(drawn)
    for index, (text, box) in enumerate(found):
        assert box.x0 >= drawn.bbox.x0 - 1 and box.x1 <= drawn.bbox.x1 + 1, text
        for other, place in found[index + 1 :]:
            assert not box.overlaps(place), (text, other)
    return [text for text, _ in found]


def test_no_text_of_a_plot_covers_another():
    rows = sample()["rows"] * 8
    for index, row in enumerate(rows):
        rows[index] = {**row, "spec": f"a_workload_with_a_long_name_{index}:512:bf16:nhwc+host"}
    assert len(assert_readable(figures.figure(result_of(rows, [])))) > 10


RESULTS = pathlib.Path(__file__).parents[2] / "docs/results"


def of_this_benchmark(path):
    value = json.loads(path.read_text())
    return isinstance(value, dict) and "format" in value


PUBLISHED = [path for path in sorted(RESULTS.glob("*.json")) if of_this_benchmark(path)]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_results_have_plots_that_can_be_read(path):
    value = json.loads(path.read_text())
    plots = 0
    for result in collection.parts(value):
        drawn = figures.figure(result)
        if drawn is None:
            continue
        plots += 1
        texts = assert_readable(drawn)
        for row in result.get("rows", []):
            if any(row["ratios"].values()):
                assert figures.row_name(row, result["rows"]) in texts
                number = report.ratio_text(next(filter(None, row["ratios"].values())))
                assert number in texts and f">{number}</text>" in figures.svg(result)
    there = list((RESULTS / "plots").glob(f"{path.stem}.svg"))
    there += (RESULTS / "plots").glob(f"{path.stem}-[a-z]*.svg")
    assert plots == 0 or there, "docs/benchmarks.md says how plots are made"


def test_what_lies_near_1_is_shown_alone_if_nothing_else_is_there():
    processes = [
        process("local", 0, line(A, 100.0)),
        process("remote", 0, line(A, 98.0), link=LINK),
    ]
    row = row_of(processes)
    assert len(figures.figure(result_of([{**row, "published": []}], [])).axes) == 1
    far = [{"source": "Far", "low": 0.2, "high": 0.2, "note": ""}]
    assert len(figures.figure(result_of([{**row, "published": far}], [])).axes) == 2


def test_losses_that_nobody_compares_are_not_kept():
    result = json.loads(json.dumps(sample()))
    row = result["rows"][0]
    for side in row["sides"].values():
        for run in side:
            run["losses"] = ["0x1p+0", "0x1p-1"]
    bare, compared = collection.slim_row(row), {**row, "spec": "alexnet:32:fp32:det"}
    assert bare["sides"]["remote"][0]["losses"] == ["0x1p-1"]
    assert collection.slim_row(compared) == compared


def test_an_error_stands_once():
    broken = [
        {**process("local", index, {"process": True}), "specs": [A, B], "error": "no GPU"}
        for index in range(3)
    ]
    rows = [row_of(broken, spec=A), row_of(broken, spec=B)]
    text = report.result_text(result_of(rows, broken))
    assert text.count("no GPU") == 1, text
    assert f"{A}, {B}: local, rounds 1, 2, 3: no GPU" in text


def test_a_file_has_each_line_once_and_says_the_same(tmp_path):
    result = sample()
    slim = collection.slim(json.loads(json.dumps(result)))
    assert not any(process["lines"] for process in slim["processes"])
    assert report.result_text(slim) == report.result_text(result)
    cli.write([result], tmp_path, "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.html", "one.json"]
    assert cli.main(["report", str(tmp_path / "one.json"), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "radium-small.svg").read_text().startswith("<svg")


def changed(before, ratios):
    after = copy.deepcopy(before)
    spread = {"median": sum(ratios) / 2, "min": min(ratios), "max": max(ratios)}
    after["rows"][0]["ratios"]["remote"] = {**spread, "per_round": ratios}
    return after


def test_compare_tells_change_from_noise():
    before = changed(sample(), [1.00, 1.02])
    text, worse = compare.compare_text(before, changed(before, [0.90, 0.92]), 0.02)
    assert worse and "WORSE" in text and "-9.9 %" in text
    assert not compare.compare_text(before, changed(before, [0.95, 1.01]), 0.02)[1]
    text, worse = compare.compare_text(before, changed(before, [1.2, 1.3]), 0.02)
    assert not worse and "better" in text
    assert not compare.compare_text(before, changed(before, [0.985, 0.995]), 0.03)[1]


def test_compare_notices_lost_results_and_other_machines():
    before, after = sample(), sample()
    after["rows"][0]["ratios"] = {"remote": None}
    after["machine"]["cpu"] = "another"
    text, worse = compare.compare_text(before, after, 0.02)
    assert worse and "no result now" in text and "different cpu" in text


def test_scenes_of_sharing_can_be_read():
    points = [[0.25 + i % 7 / 100 for i in range(60)], [0.75 - i % 5 / 100 for i in range(60)]]
    scenes = [
        {"name": scene.name, "shares": [part.share for part in scene.parts],
         "rounds": [{"points": (points * len(scene.parts))[: len(scene.parts)]}]}
        for scene in sharing.SCENES
    ]  # fmt: skip
    result = {"table": "sharing", "scenes": scenes, "settings": {"point_s": 0.5}}
    texts = assert_readable(figures.figure(result))
    assert {scene.name for scene in sharing.SCENES} <= set(texts)
