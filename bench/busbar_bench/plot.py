"""Plots: SVG of our own inside one self-contained HTML page, and PNG where matplotlib exists."""

import html
import json
import re

from busbar_bench import micro, switches
from busbar_bench.published import LINKS
from busbar_bench.report import (
    bar_text,
    error_ends,
    losses_text,
    mark_text,
    number,
    ratio_text,
    result_text,
    side_rate,
    trouble,
    verdict_text,
)
from busbar_bench.results import LOCAL, REMOTE

COLOURS = ("#0b6e4f", "#b5651d", "#5b4b8a", "#a63d40")
MARK_COLOUR = "#666"
ROW_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 46, 250, 30, 34, 40
WIDTH = 900

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 78em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: right }
td { white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.pass { color: #0b6e4f } .fail, .error { color: #a63d40; font-weight: 600 }
details { margin: 1em 0 } summary { cursor: pointer; color: #555 }
h2 { margin-top: 2em; font-size: 1.25em } h2 + p { color: #555 } a { color: inherit }
.wide { overflow-x: auto }
pre { background: #f6f6f4; padding: 1em; overflow-x: auto } svg { max-width: 100% }
"""


def scale_end(rows):
    """The right end of the axis: a little beyond everything shown."""
    values = [1.0]
    for row in rows:
        values += [r["max"] for r in row["ratios"].values() if r]
        values += [m["high"] for m in row["published"]]
        values += [row["bar"]] if row["bar"] is not None else []
    return max(values) * 1.08


def svg(result):
    """Ratios with error bars, the published figures as marks, the bar as a dashed line."""
    rows = result["rows"]
    height = TOP + ROW_HEIGHT * len(rows) + BOTTOM
    end = scale_end(rows)

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / end

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    bottom = TOP + ROW_HEIGHT * len(rows)
    for step in range(int(end / 0.2) + 1):
        value = step * 0.2
        heavy = step == 5
        out.append(
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{TOP - 8}" y2="{bottom}" '
            f'stroke="{"#333" if heavy else "#ddd"}"/>'
            f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{value:.1f}</text>'
        )
    out.append(
        f'<text x="{x(end / 2):.1f}" y="{bottom + 34}" text-anchor="middle">'
        "part of local speed</text>"
    )
    names = [side for side in result["settings"]["sides"] if side != LOCAL]
    for index, name in enumerate(names):
        out.append(
            f'<circle cx="{LEFT + 120 * index + 6}" cy="12" r="5" fill="{COLOURS[index % 4]}"/>'
            f'<text x="{LEFT + 120 * index + 16}" y="16">{html.escape(name)}</text>'
        )
    out.append(
        f'<text x="{LEFT + 120 * len(names)}" y="16" fill="{MARK_COLOUR}">'
        "grey: published, dashed: bar</text>"
    )
    for index, row in enumerate(rows):
        out += svg_row(row, names, TOP + ROW_HEIGHT * index, x)
    return "\n".join([*out, "</svg>"])


def svg_row(row, names, top, x):
    """One workload's line of the plot."""
    middle = top + ROW_HEIGHT / 2
    label = row["spec"] if row["link"] is None else f"{row['spec']} ({row['link']})"
    # Long names are squeezed into their column.
    long = len(label) * 7 > LEFT - 20
    squeeze = f' textLength="{LEFT - 20}" lengthAdjust="spacingAndGlyphs"' if long else ""
    out = [
        (
            f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end"{squeeze}>'
            f"{html.escape(label)}</text>"
        )
    ]
    for mark in row["published"]:
        low, high = x(mark["low"]), x(mark["high"])
        title = f"<title>{html.escape(mark_text(mark))}</title>"
        if mark["low"] == mark["high"]:
            out.append(
                f'<path d="M{low:.1f} {middle - 7} l7 7 l-7 7 l-7 -7 z" fill="none" '
                f'stroke="{MARK_COLOUR}" stroke-width="1.5">{title}</path>'
                f'<text x="{low:.1f}" y="{middle + 18}" font-size="9" text-anchor="middle" '
                f'fill="{MARK_COLOUR}">{html.escape(mark["source"])}</text>'
            )
        else:
            out.append(
                f'<rect x="{low:.1f}" y="{middle - 8}" width="{high - low:.1f}" height="16" '
                f'fill="{MARK_COLOUR}" opacity="0.2">{title}</rect>'
                f'<text x="{low + 2:.1f}" y="{middle + 18}" font-size="9" '
                f'fill="{MARK_COLOUR}">{html.escape(mark["source"])}</text>'
            )
    if row["bar"] is not None:
        out.append(
            f'<line x1="{x(row["bar"]):.1f}" x2="{x(row["bar"]):.1f}" y1="{top + 5}" '
            f'y2="{top + ROW_HEIGHT - 5}" stroke="#222" stroke-dasharray="4 3"/>'
        )
    shown = [name for name in names if row["ratios"].get(name)]
    for place, name in enumerate(shown):
        ratio = row["ratios"][name]
        y = middle + (place - (len(shown) - 1) / 2) * 12
        colour = COLOURS[names.index(name) % 4]
        low, high = map(x, error_ends(row, name))
        out.append(
            f'<g stroke="{colour}" stroke-width="2">'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<line x1="{low:.1f}" x2="{low:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
            f'<line x1="{high:.1f}" x2="{high:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
            f'<circle cx="{x(ratio["median"]):.1f}" cy="{y}" r="4" fill="{colour}">'
            f"<title>{html.escape(name)} {ratio_text(ratio)}</title></circle></g>"
        )
    return out


def section(result):
    """A table's part of a page: the plot, the rows, the report, the machine."""

    def cell(text, kind="td", style=""):
        return f"<{kind}{style}>{html.escape(str(text))}</{kind}>"

    peers = [side for side in result["settings"]["sides"] if side not in (LOCAL, REMOTE)]
    head = ["workload", "link", "local", "remote", "ratio [range]"]
    head += [*peers, "published", "losses", "bar", "verdict"]
    rows = ["<tr>" + "".join(cell(text, "th") for text in head) + "</tr>"]
    for row in result["rows"]:
        local, unit = side_rate(row, LOCAL)
        remote, remote_unit = side_rate(row, REMOTE)
        verdict = f' class="{row["verdict"].replace(" ", "-")}"'
        rows.append(
            "<tr>"
            + cell(row["spec"])
            + cell(row["link"] or "-")
            + cell(f"{number(local)} {unit}")
            + cell(f"{number(remote)} {remote_unit}")
            + cell(ratio_text(row["ratios"].get(REMOTE)))
            + "".join(cell(ratio_text(row["ratios"].get(p)) + trouble(row, p)) for p in peers)
            + cell(", ".join(mark_text(m) for m in row["published"]) or "-")
            + cell(losses_text(row))
            + cell(bar_text(row))
            + cell(verdict_text(row), "td", f'{verdict} title="{html.escape(row["reason"])}"')
            + "</tr>"
        )
    machine = "".join(
        f"<tr>{cell(name)}{cell(json.dumps(value))}</tr>"
        for name, value in result["machine"].items()
    )
    body = f'{svg(result)}<div class="wide"><table>{"".join(rows)}</table></div>'
    text = result_text(result)
    if "micro" in result:
        body, text = "", switches.result_text(result)
        body = grid(*switches.rows_of(result))
    return (
        f"{heading(result)}"
        f"<p>{html.escape(result['started'])}, {result['settings']['rounds']} rounds, "
        f"{result['settings']['warmup']} warm-up and {result['settings']['steps']} measured "
        f"steps.</p>{body}"
        f"<details><summary>Report and machine</summary>"
        f"<pre>{html.escape(text)}</pre><table>{machine}</table></details>"
    )


def grid(head, rows):
    """A plain table; a bar that was missed stands out."""

    def cell(kind, text):
        style = ' class="fail"' if text.startswith("missed by ") else ""
        return f"<{kind}{style}>{html.escape(text)}</{kind}>"

    def line(cells, kind):
        return "<tr>" + "".join(cell(kind, str(c)) for c in cells) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"


def micro_section(result):
    """The micro-benchmarks' part of a page."""
    rows = micro.judged_rows(result)
    return (
        f"{heading(result)}{grid(['what', 'measured', 'bar', 'verdict'], rows)}"
        f"<details><summary>Report</summary><pre>{html.escape(micro.result_text(result))}</pre>"
        "</details>"
    )


def any_section(result):
    """The part of a page for a result of either kind."""
    return micro_section(result) if result["table"] == "micro" else section(result)


def name_of(result):
    """What a result is called on a page."""
    if result["table"] == "micro":
        return micro.title(result)
    return f"{result['table']}: {result['title']}"


def heading(result):
    """A result's heading, which the overview leads to."""
    name = name_of(result)
    return f'<h2 id="{anchor(name)}">{html.escape(name)}</h2>'


def anchor(name):
    """A heading's name in an address."""
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def verdicts(result):
    """How many bars a result meets, and how many it has."""
    if result["table"] == "micro":
        all_of = [verdict for *_, verdict in micro.judge(result)]
    else:
        all_of = [row["verdict"] for row in result.get("rows", [])]
    judged = [verdict for verdict in all_of if verdict in ("pass", "fail", "error")]
    return judged.count("pass"), len(judged)


def overview(found):
    """What the page shows, and how each part of it came out."""
    links = {row["link"] for result in found for row in result.get("rows", [])}
    links |= {result["settings"].get("link") for result in found}
    known = [(name, *LINKS[name]) for name in sorted(links & LINKS.keys())]
    said = [
        f"{html.escape(name)}: {delay * 1e6:g} us each way"
        + (f", {rate * 8 / 1e9:g} Gb/s" if rate else "")
        for name, delay, rate in known
    ]
    rows = []
    for result in found:
        met, bars = verdicts(result)
        name = name_of(result)
        style = ' class="fail"' if met < bars else ""
        count = f"{met} of {bars}" if bars else "-"
        link = f'<a href="#{anchor(name)}">{html.escape(name)}</a>'
        rows.append(f"<tr><td>{link}</td><td{style}>{count}</td></tr>")
    return (
        "<p>The same programs with the accelerator in their own machine (local) and through "
        "Busbar (remote), in turn. A ratio is the remote rate over the local rate of the same "
        "round: 1 is local speed. Points are medians over the rounds, error bars their range (of "
        "one round: the standard error within it). A bar is what a row is held against. "
        f"{'Links: ' + '; '.join(said) + '. ' if said else ''}Units and methods: "
        "docs/benchmarks.md. The raw numbers are inside this page.</p>"
        f"<table><tr><th>what</th><th>bars met</th></tr>{''.join(rows)}</table>"
    )


def pages(found, title):
    """One HTML page for several results; it needs nothing else and has the raw numbers inside."""
    # No text in the raw numbers can end the script element in which they lie.
    raw = json.dumps(found if len(found) > 1 else found[0]).replace("<", "\\u003c")
    body = overview(found) + "".join(any_section(result) for result in found)
    title = html.escape(title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>{body}"
        f'<script type="application/json" id="raw">{raw}</script></body></html>\n'
    )


def page(result):
    """The page of one table."""
    return pages([result], f"busbar-bench {result['table']}")


def png(found, path):
    """Writes the plots of some tables, one above the other, as PNG; False without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return False
    found = [r for r in found if r["table"] not in ("micro", "switches") and r["rows"]]
    if not found:
        return False
    heights = [1.1 + 0.42 * len(result["rows"]) for result in found]
    figure, grid_of = pyplot.subplots(
        len(found), 1, figsize=(11, sum(heights)), height_ratios=heights, squeeze=False
    )
    for axes, result in zip(grid_of[:, 0], found):
        draw(axes, result)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True


def draw(axes, result):
    """One table's plot: ratios with their range, published figures in grey, bars dashed."""
    rows = result["rows"]
    names = [side for side in result["settings"]["sides"] if side != LOCAL]
    labelled = set()

    def label(text):
        new = text not in labelled
        labelled.add(text)
        return text if new else None

    for index, row in enumerate(rows):
        for mark in row["published"]:
            if mark["low"] == mark["high"]:
                axes.plot(mark["low"], index, "D", color=MARK_COLOUR, mfc="none", ms=7)
            else:
                width = mark["high"] - mark["low"]
                axes.barh(index, width, 0.5, left=mark["low"], color=MARK_COLOUR, alpha=0.2)
            # Above the mark, so that it does not hide behind a point.
            axes.annotate(mark["source"], (mark["low"], index), (0, 7), fontsize=6.5,
                          textcoords="offset points", color=MARK_COLOUR, ha="center")  # fmt: skip
        if row["bar"] is not None:
            axes.plot([row["bar"]] * 2, [index - 0.4, index + 0.4], "k--", linewidth=1,
                      label=label("bar"))  # fmt: skip
        for place, name in enumerate(names):
            ratio = row["ratios"].get(name)
            if ratio is None:
                continue
            low, high = error_ends(row, name)
            spread = [[ratio["median"] - low], [high - ratio["median"]]]
            axes.errorbar(
                ratio["median"],
                index + 0.15 * place,
                xerr=spread,
                fmt="o",
                capsize=3,
                color=COLOURS[place % len(COLOURS)],
                label=label(name),
            )
    names = [f"{row['spec']}" + (f"\n{row['link']}" if mixed(rows) else "") for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.axvline(1.0, color="#333", linewidth=0.8)
    axes.set_xlim(0, scale_end(rows))
    axes.grid(axis="x", color="#e5e5e5", zorder=0)
    axes.set_axisbelow(True)
    axes.set_title(f"{result['table']}: {result['title']} (part of local speed)", fontsize=9,
                   loc="left")  # fmt: skip
    if labelled:
        axes.legend(loc="lower left", fontsize=7)


def mixed(rows):
    """Whether rows run over different links."""
    return len({row["link"] for row in rows}) > 1
