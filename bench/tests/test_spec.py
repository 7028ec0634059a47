"""How workloads are written, and which there are."""

import pytest

from busbar_bench import workloads
from busbar_bench.published import TABLES
from busbar_bench.spec import parse, parse_list


def test_round_trip():
    spec = parse("resnet50:64:bf16:nhwc+host")
    assert (spec.name, spec.batch, spec.precision) == ("resnet50", 64, "bf16")
    assert spec.options == ("host", "nhwc")
    assert parse(str(spec)) == spec
    assert str(parse("alexnet")) == "alexnet:1:fp32"
    assert spec.with_options("det").has("det")


@pytest.mark.parametrize("text", ["", ":1", "a:0", "a:x", "a:1:int4", "a:1:fp32:fast", "a:1:b:c:d"])
def test_bad_ones_are_refused(text):
    with pytest.raises(ValueError):
        parse(text)


def test_lists():
    assert [s.name for s in parse_list("a:1, b:2,")] == ["a", "b"]


def test_names_are_unique_and_every_table_uses_known_ones():
    names = workloads.names()
    assert len(names) == len(set(names))
    for table in TABLES.values():
        specs = [(str(row.spec), row.link) for row in table.rows]
        assert len(specs) == len(set(specs)), table.name
        assert any(row.smoke for row in table.rows), table.name
        for row in table.rows:
            assert row.spec.name in names


def test_an_unknown_workload_is_named():
    with pytest.raises(ValueError, match="no workload is named 'vgg'"):
        workloads.build(parse("vgg"), {})
