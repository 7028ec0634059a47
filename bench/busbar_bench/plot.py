"""Plots: SVG of our own inside one self-contained HTML page, and PNG where matplotlib exists."""

import html
import json

from busbar_bench.report import mark_text, number, ratio_text, result_text, side_rate
from busbar_bench.results import LOCAL, REMOTE

COLOURS = ("#0b6e4f", "#b5651d", "#5b4b8a", "#a63d40")
MARK_COLOUR = "#666"
ROW_HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 46, 250, 30, 34, 40
WIDTH = 900

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; color: #222 }
table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums }
th, td { padding: .25em .7em; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left }
.pass { color: #0b6e4f } .fail, .error { color: #a63d40; font-weight: 600 }
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
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13">',
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
        f'<text x="{LEFT - 10}" y="{middle + 4}" text-anchor="end"{squeeze}>'
        f"{html.escape(label)}</text>"
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
        low, high = x(ratio["min"]), x(ratio["max"])
        out.append(
            f'<g stroke="{colour}" stroke-width="2">'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<line x1="{low:.1f}" x2="{low:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
            f'<line x1="{high:.1f}" x2="{high:.1f}" y1="{y - 4}" y2="{y + 4}"/>'
            f'<circle cx="{x(ratio["median"]):.1f}" cy="{y}" r="4" fill="{colour}">'
            f"<title>{html.escape(name)} {ratio_text(ratio)}</title></circle></g>"
        )
    return out


def page(result):
    """One HTML page that needs nothing else, with the raw numbers inside."""

    def cell(text, kind="td", style=""):
        return f"<{kind}{style}>{html.escape(str(text))}</{kind}>"

    head = ("workload", "link", "local", "remote", "ratio", "published", "bar", "verdict")
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
            + cell(", ".join(mark_text(m) for m in row["published"]) or "-")
            + cell("-" if row["bar"] is None else f"{row['bar']:.2f}")
            + cell(f"{row['verdict']} {row['reason']}".strip(), "td", verdict)
            + "</tr>"
        )
    machine = "".join(
        f"<tr>{cell(name)}{cell(json.dumps(value))}</tr>"
        for name, value in result["machine"].items()
    )
    title = html.escape(f"{result['table']}: {result['title']}")
    # No text in the raw numbers can end the script element in which they lie.
    raw = json.dumps(result).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{html.escape(result['started'])}, {result['settings']['rounds']} rounds, "
        f"{result['settings']['warmup']} warm-up and {result['settings']['steps']} measured "
        f"steps. Points are medians over the rounds, error bars their range.</p>"
        f"{svg(result)}<table>{''.join(rows)}</table>"
        f"<h2>Report</h2><pre>{html.escape(result_text(result))}</pre>"
        f"<h2>Machine</h2><table>{machine}</table>"
        f'<script type="application/json" id="raw">{raw}</script></body></html>\n'
    )


def png(result, path):
    """Writes the plot as PNG; False where matplotlib is missing."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return False
    rows = result["rows"]
    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.5 * len(rows)))
    names = [side for side in result["settings"]["sides"] if side != LOCAL]
    labelled = set()
    for index, row in enumerate(rows):
        for mark in row["published"]:
            width = max(mark["high"] - mark["low"], 0.004)
            label = mark["source"] if mark["source"] not in labelled else None
            labelled.add(mark["source"])
            axes.barh(
                index, width, 0.5, left=mark["low"], color=MARK_COLOUR, alpha=0.35, label=label
            )
        if row["bar"] is not None:
            axes.plot([row["bar"]] * 2, [index - 0.4, index + 0.4], "k--", linewidth=1)
        for place, name in enumerate(names):
            ratio = row["ratios"].get(name)
            if ratio is None:
                continue
            spread = [[ratio["median"] - ratio["min"]], [ratio["max"] - ratio["median"]]]
            axes.errorbar(
                ratio["median"],
                index + 0.15 * place,
                xerr=spread,
                fmt="o",
                capsize=3,
                color=COLOURS[place % 4],
                label=name if name not in labelled else None,
            )
            labelled.add(name)
    axes.set_yticks(range(len(rows)), [row["spec"] for row in rows])
    axes.invert_yaxis()
    axes.axvline(1.0, color="#333", linewidth=0.8)
    axes.set_xlim(0, scale_end(rows))
    axes.set_xlabel("part of local speed")
    axes.set_title(result["title"])
    if labelled:
        axes.legend(loc="best", fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return True
