"""Plots, by matplotlib: ratios of a table; launches and copies; shares of a device over time."""

import io
import itertools
import re

from busbar_bench import account
from busbar_bench.published import LINKS
from busbar_bench.report import error_ends, mark_text, ratio_text
from busbar_bench.results import LOCAL

# Okabe and Ito's colours, which everybody can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
MARK_COLOUR = "#767676"
MARKS = "Dsv^<>P"
# The second plot shows what lies this near to 1, and further where our own figures do.
NEAR = 0.03
LOOK = {
    "font.family": "sans-serif",
    # The first is what texts are measured in; Verdana is as wide. Each text names them all.
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    # Text stays text, which can be searched and read aloud.
    "svg.fonttype": "none",
    # The same figure is the same file.
    "svg.hashsalt": "busbar",
}


class Missing(Exception):
    """There is no matplotlib here."""


def library():
    """matplotlib's figures. Measuring needs none, so it is looked for only here."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Missing("plots need matplotlib (pip install matplotlib)") from error
    return matplotlib, Figure


def figure(result):
    """The figure of a result, or None if nothing of it is shown by a plot."""
    matplotlib, make = library()
    with matplotlib.rc_context(LOOK):
        if result["table"] == "micro":
            return micro_figure(make, result)
        if result["table"] == "sharing":
            return sharing_figure(make, result)
        if result["table"] in ("nccl", "scaling", "horovod"):
            return None
        if "micro" in result or not any(any(r["ratios"].values()) for r in result["rows"]):
            return None
        return ratio_figure(make, result)


def svg(result):
    """A result's figure as an SVG element, or "" if it has none."""
    drawn = figure(result)
    if drawn is None:
        return ""
    matplotlib, _ = library()
    text = io.StringIO()
    with matplotlib.rc_context(LOOK):
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # Without the document's head, the element stands in a page as in a file.
    return small(text.getvalue()[text.getvalue().index("<svg") :])


def small(element):
    """The same SVG without what nobody sees: parts of less than a hundredth of a point, which are
    half of it, indentation, and what it says of itself."""
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", element, flags=re.DOTALL)
    element = re.sub(r"\n *", "\n", element)

    def short(number):
        return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")

    # Within tags alone: what stands between them is to be read.
    return re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d{3,}", short, tag[0]), element)


def ratio_figure(make, result):
    """Ratios with their range, and in numbers, beside the published ones; what lies near 1 once
    more, enlarged, unless all of it does."""
    rows = result["rows"]
    panels = ranges(rows)
    sides = most_sides(result)
    drawn = make(
        figsize=(11.5 if len(panels) == 2 else 8.5, 1.2 + (0.24 + 0.18 * sides) * len(rows)),
        layout="constrained",
    )
    # Room between the two, so that the last number of one and the first of the other stay apart.
    drawn.get_layout_engine().set(wspace=0.08)
    axes = drawn.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, limits in zip(axes, panels):
        draw_rows(ax, result, limits)
    axes[0].set_yticks(range(len(rows)), [row_name(row, rows) for row in rows])
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    axes[0].set_xlabel("part of local speed")
    if len(panels) == 2:
        axes[1].set_xlabel("the same near 1, enlarged")
    shown = [
        (at, ratio_text(row["ratios"][side]), colour_of(result, side))
        for index, row in enumerate(rows)
        for at, side in places(index, shown_sides(result, row))
    ]
    numbers(axes[-1], shown)
    legend(drawn, 4)
    return drawn


def ranges(rows):
    """What the axes show: one near 1 if all lies there, or everything and again what is near 1."""
    whole, near = full_range(rows), near_range(rows)
    if not any(row["published"] for row in rows) and near[0] > 0.5 and near[1] < 2:
        return [near]
    return [whole, near] if near[1] - near[0] < 0.6 * (whole[1] - whole[0]) else [whole]


def shown_sides(result, row):
    """The sides that a row has a ratio of."""
    return [s for s in result["settings"]["sides"] if s != LOCAL and row["ratios"].get(s)]


def most_sides(result):
    """How many sides the row with the most of them has."""
    return max(len(shown_sides(result, row)) for row in result["rows"])


def colour_of(result, side):
    """A side's colour, the same in all rows."""
    sides = [name for name in result["settings"]["sides"] if name != LOCAL]
    return COLOURS[sides.index(side) % len(COLOURS)]


def places(index, sides):
    """Where a row's sides stand, one below the other."""
    step = 0.8 / len(sides) if sides else 0
    return [(index + step * (i - (len(sides) - 1) / 2), side) for i, side in enumerate(sides)]


def numbers(ax, shown):
    """The numbers of points at the right of their axes: (place, text, colour)."""
    right = ax.secondary_yaxis("right")
    right.set_yticks([at for at, _, _ in shown], [text for _, text, _ in shown])
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    for label, (_, _, colour) in zip(right.get_yticklabels(), shown):
        label.set_color(colour)


def legend(drawn, columns):
    """What stands for what, once for all axes, and outside of them, where it covers nothing."""
    handles = {}
    for ax in drawn.axes:
        for handle, label in zip(*ax.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    drawn.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False
    )


def full_range(rows):
    """From 0 to a little beyond everything that is shown."""
    values = [1.0]
    for row in rows:
        values += [ratio["max"] for ratio in row["ratios"].values() if ratio]
        values += [mark["high"] for mark in row["published"]]
        values += [row["bar"]] if row["bar"] is not None else []
    return 0.0, max(values) * 1.05


def near_range(rows):
    """Around 1, our own figures and the bars, and no published ones."""
    values = [1.0 - NEAR, 1.0 + NEAR]
    for row in rows:
        for side in row["ratios"]:
            values += error_ends(row, side) or ()
        values += [row["bar"]] if row["bar"] is not None else []
    room = 0.05 * (max(values) - min(values))
    return max(0.0, min(values) - room), max(values) + room


def row_name(row, rows):
    """A row's name, with its link where links differ."""
    mixed = len({other["link"] for other in rows}) > 1
    return f"{row['spec']}\n{row['link']}" if mixed else row["spec"]


def draw_rows(ax, result, limits):
    """One set of axes; what is named once stands in the legend once."""
    rows = result["rows"]
    sources = dict.fromkeys(mark["source"] for row in rows for mark in row["published"])
    shapes = dict(zip(sources, itertools.cycle(MARKS)))
    ax.axvline(1.0, color="#333", linewidth=0.8)
    bars = [(i, row["bar"]) for i, row in enumerate(rows) if row["bar"] is not None]
    if bars:
        ax.vlines(
            [bar for _, bar in bars],
            [i - 0.4 for i, _ in bars],
            [i + 0.4 for i, _ in bars],
            colors="black",
            linestyles="dashed",
            linewidth=1,
            label="bar",
        )
    for index, row in enumerate(rows):
        for mark in row["published"]:
            label = f"published: {mark['source']}"
            if mark["low"] == mark["high"]:
                style = {"color": MARK_COLOUR, "mfc": "none", "linestyle": "none"}
                ax.plot(mark["low"], index, shapes[mark["source"]], label=label, **style)
            else:
                width = mark["high"] - mark["low"]
                ax.barh(
                    index, width, 0.5, left=mark["low"], color=MARK_COLOUR, alpha=0.2, label=label
                )
        for at, side in places(index, shown_sides(result, row)):
            ratio, ends = row["ratios"][side], error_ends(row, side)
            ax.errorbar(
                ratio["median"],
                at,
                xerr=[[ratio["median"] - ends[0]], [ends[1] - ratio["median"]]],
                fmt="o",
                ms=5,
                capsize=3,
                color=colour_of(result, side),
                label=side,
            )
    ax.set_xlim(limits)
    ax.grid(axis="y", visible=False)


LAUNCHES = {
    "launch_1_p50_ns": "a launch, 1 thread",
    "launch_8_p50_ns": "a launch, 8 threads",
    "launch_sync_p50_ns": "a launch, and wait for it",
    "idle_sync_p50_ns": "a wait for nothing",
}


def micro_figure(make, result):
    """What calls cost, and copies over their size; None if neither was measured."""
    summary = result["summary"]
    fields = [name for name in LAUNCHES if any(of.get(name) for of in summary.values())]
    copies = any(of["copies"] for of in summary.values())
    if not fields and not copies:
        return None
    drawn = make(figsize=(9, 2.9 * copies + 0.9 * bool(fields) + 0.5 * len(fields)))
    drawn.set_layout_engine("constrained")
    heights = ([0.8 + 0.5 * len(fields)] if fields else []) + ([2.9] if copies else [])
    parts = iter(drawn.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    if fields:
        draw_launches(next(parts).subplots(), summary, fields)
    if copies:
        capacity = LINKS.get(result["settings"].get("link"), (0, None))[1]
        both = next(parts).subplots(1, 2, sharey=True)
        for ax, way, name in zip(both, ("h2d", "d2h"), ("to the device", "from the device")):
            draw_copies(ax, summary, way, capacity)
            ax.set_title(f"copies {name}", loc="left", fontsize=9)
        both[0].set_ylabel("GB/s")
    legend(drawn, 6)
    return drawn


def draw_launches(ax, summary, fields):
    """What a call costs its caller: the median, its range over the rounds, and in numbers."""
    shown = []
    for index, field in enumerate(fields):
        sides = [side for side in summary if summary[side].get(field) is not None]
        for at, side in places(index, sides):
            value = summary[side][field] / 1e3
            spread = summary[side].get("spread", {}).get(field)
            low, high = (end / 1e3 for end in spread) if spread else (value, value)
            colour = COLOURS[list(summary).index(side) % len(COLOURS)]
            ax.errorbar(
                value,
                at,
                xerr=[[value - low], [high - value]],
                fmt="o",
                ms=5,
                capsize=3,
                color=colour,
                label=side,
            )
            shown.append((at, f"{value:.2g} us" if value < 10 else f"{value:.0f} us", colour))
    ax.set_yticks(range(len(fields)), [LAUNCHES[field] for field in fields])
    ax.set_ylim(len(fields) - 0.5, -0.5)
    ax.set_xscale("log")
    plain_numbers(ax.xaxis)
    ax.set_xlabel("us, median")
    ax.grid(axis="y", visible=False)
    numbers(ax, shown)


def draw_copies(ax, summary, way, capacity):
    """GB/s by size, page-locked and pageable; the link's rate as a dashed line."""
    for place, numbers_of in enumerate(summary.values()):
        colour = COLOURS[place % len(COLOURS)]
        for kind, style in (("pinned", "-"), ("pageable", ":")):
            points = [
                (entry["bytes"], entry.get(f"{kind}_{way}")) for entry in numbers_of["copies"]
            ]
            points = [point for point in points if point[1]]
            if points:
                ax.plot(*zip(*points), style, marker="o", ms=3, color=colour)
    # A colour stands for a side and a line for a kind of memory, each named once.
    for place, side in enumerate(summary):
        ax.plot([], [], "o", ms=5, color=COLOURS[place % len(COLOURS)], label=side)
    for name, style in (("page-locked", "-"), ("pageable", ":")):
        ax.plot([], [], style, color=MARK_COLOUR, label=name)
    if capacity:
        ax.axhline(capacity / 1e9, color="black", linestyle="dashed", linewidth=1, label="link")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    sizes = sorted({entry["bytes"] for of in summary.values() for entry in of["copies"]})
    ax.set_xticks(sizes[::2], [size_text(size) for size in sizes[::2]])
    ax.xaxis.minorticks_off()
    plain_numbers(ax.yaxis)


def plain_numbers(axis):
    """Numbers as people write them, instead of powers of ten; 1, 3 and 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def sharing_figure(make, result):
    """What each program had of the device over time, a plot for each scene; the first round."""
    scenes = [scene for scene in result["scenes"] if scene["rounds"]]
    if not scenes:
        return None
    columns = min(3, len(scenes))
    lines = -(-len(scenes) // columns)
    # One plot alone has a legend to make room for.
    drawn = make(figsize=(max(3.6 * columns, 6), 0.6 + 2.2 * lines), layout="constrained")
    axes = drawn.subplots(lines, columns, squeeze=False).ravel()
    for ax, scene in zip(axes, scenes):
        draw_shares(ax, scene, result["settings"]["point_s"])
    for ax in axes[len(scenes) :]:
        ax.set_axis_off()
    legend(drawn, 5 if columns > 1 else 3)
    return drawn


def draw_shares(ax, scene, point_s):
    """Each program's share of time, of the second around each look at the server; or its work in
    each point of time, over one alone, where nobody counted. And the shares that were asked."""
    first = scene["rounds"][0]
    counted = list(zip(*first.get("time", [])))
    step = account.EVERY if counted else point_s
    for index, points in enumerate(counted or first["points"]):
        colour = COLOURS[index % len(COLOURS)]
        times = [(i + 0.5) * step for i in range(len(points))]
        # More programs than colours: those of one colour are told apart by nobody, and are alike.
        label = f"program {index + 1}" if index < len(COLOURS) else None
        ax.plot(times, points, color=colour, linewidth=1, label=label)
    for share in dict.fromkeys(share for share in scene["shares"] if share):
        ax.axhline(share, color="black", linestyle="dashed", linewidth=0.8, label="share asked for")
    ax.set_ylim(bottom=0)
    ax.set_title(scene["name"], loc="left", fontsize=9)
    ax.set_xlabel("s")
    ax.set_ylabel("share of time" if counted else "work, of one alone")


def size_text(size):
    """Bytes as people say them."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}"
        size /= 1024
    return f"{size:g} GiB"


def description(result):
    """A sentence for anyone who cannot see the figure."""
    if result["table"] == "micro":
        return "Launch times and copy rates; the numbers stand in the report below."
    if result["table"] == "sharing":
        return "What each program had over time; the numbers stand in the report below."
    if result["table"] == "across":
        return "No figure; the numbers stand in the report below."
    said = []
    for row in result["rows"]:
        for side, ratio in row["ratios"].items():
            if ratio:
                marks = ", ".join(mark_text(mark) for mark in row["published"])
                tail = f" (published: {marks})" if marks else ""
                said.append(f"{row['spec']}, {side}: {ratio['median']:.2f}{tail}")
    return "Part of local speed. " + "; ".join(said) + "."
