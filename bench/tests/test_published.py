"""The published figures and the bars, as they were published and promised."""

from busbar_bench.published import LINKS, TABLES


def rows(table):
    return {str(row.spec): row for row in TABLES[table].rows}


def figures(row):
    return {mark.source: (mark.low, mark.high) for mark in row.marks}


def test_radium_small():
    found = rows("radium-small")
    assert figures(found["alexnet:32:fp32"]) == {"Radium": (0.42, 0.42), "Lupine": (0.33, 0.33)}
    assert figures(found["resnet32_v2:32:fp32"])["Radium"] == (0.93, 0.93)
    assert figures(found["resnet56:32:fp32"]) == {"Radium": (0.97, 0.97), "Lupine": (0.66, 0.66)}
    assert [row.bar for row in found.values()] == [1.00, 1.10, 1.10]


def test_radium_large_and_amd():
    radium = [figures(row)["Radium"] for row in TABLES["radium-large"].rows]
    assert radium == [(0.84, 0.84), (0.85, 0.85), (0.996, 0.996)]
    amd = TABLES["radium-amd"].rows
    assert len(amd) == 9
    assert all(figures(row)["Radium"] == (0.50, 0.99) for row in amd)
    assert all(row.bar == 0.99 for row in amd)


def test_bitfusion_covers_three_networks():
    found = TABLES["bitfusion-networks"].rows
    assert {row.link for row in found} == {"vmxnet3-10g", "ethernet-10g", "roce-100g"}
    for row in found:
        wanted = (0.43, 0.89) if row.link == "roce-100g" else (0.15, 0.90)
        assert list(figures(row).values()) == [wanted]


def test_links():
    assert LINKS["vmxnet3-10g"] == (80e-6, 593_750_000.0)
    assert set(LINKS) == {"vmxnet3-10g", "ethernet-10g", "roce-100g", "wan-10ms", "loopback"}
    assert all(table.link in LINKS for table in TABLES.values())
