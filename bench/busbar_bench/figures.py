"""Plots, by matplotlib: ratios of a table; launches and copies; shares of a device over time."""

import io
import itertools

from busbar_bench.published import LINKS
from busbar_bench.report import error_ends, mark_text
from busbar_bench.results import LOCAL

# Okabe and Ito's colours, which everybody can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
MARK_COLOUR = "#767676"
MARKS = "Dsv^<>P"
# The second plot shows what lies this near to 1, and further where our own figures do.
NEAR = 0.03
LOOK = {
    "font.family": "sans-serif",
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
    return text.getvalue()[text.getvalue().index("<svg") :]


def ratio_figure(make, result):
    """Ratios with their range beside the published ones, and again what lies near 1, enlarged."""
    rows = result["rows"]
    whole, near = full_range(rows), near_range(rows)
    two = near[1] - near[0] < 0.6 * (whole[1] - whole[0])
    height = 1.5 + 0.42 * len(rows)
    drawn = make(figsize=(10.5 if two else 7.5, height), layout="constrained")
    # Room between the two, so that the last number of one and the first of the other stay apart.
    drawn.get_layout_engine().set(wspace=0.08)
    axes = drawn.subplots(1, 2 if two else 1, sharey=True, squeeze=False)[0]
    for ax, limits in zip(axes, (whole, near)):
        draw_rows(ax, result, limits)
    axes[0].set_yticks(range(len(rows)), [row_name(row, rows) for row in rows])
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    axes[0].set_xlabel("part of local speed")
    if two:
        axes[1].set_xlabel("the same near 1, enlarged")
    legend(drawn, 4)
    return drawn


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
    sides = [side for side in result["settings"]["sides"] if side != LOCAL]
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
        shown = [side for side in sides if row["ratios"].get(side)]
        for place, side in enumerate(shown):
            ratio, ends = row["ratios"][side], error_ends(row, side)
            ax.errorbar(
                ratio["median"],
                index + 0.16 * (place - (len(shown) - 1) / 2),
                xerr=[[ratio["median"] - ends[0]], [ends[1] - ratio["median"]]],
                fmt="o",
                ms=5,
                capsize=3,
                color=COLOURS[sides.index(side) % len(COLOURS)],
                label=side,
            )
    ax.set_xlim(limits)
    ax.grid(axis="y", visible=False)


def micro_figure(make, result):
    """Launches as bars, copies as lines over their size; None if neither was measured."""
    summary = result["summary"]
    sides = list(summary)
    launches = [
        (label, field)
        for label, field in (
            ("1 thread", "launch_1_p50_ns"),
            ("8 threads", "launch_8_p50_ns"),
            ("and wait", "launch_sync_p50_ns"),
        )
        if any(summary[side].get(field) for side in sides)
    ]
    copies = any(summary[side]["copies"] for side in sides)
    panels = ([draw_launches] if launches else []) + ([draw_copies] * 2 if copies else [])
    if not panels:
        return None
    drawn = make(figsize=(1.0 + 3.6 * len(panels), 3.6), layout="constrained")
    axes = drawn.subplots(1, len(panels), squeeze=False)[0]
    if launches:
        draw_launches(axes[0], summary, launches)
    if copies:
        capacity = LINKS.get(result["settings"].get("link"), (0, None))[1]
        for ax, way, name in zip(axes[-2:], ("h2d", "d2h"), ("to the device", "from the device")):
            draw_copies(ax, summary, way, capacity)
            ax.set_title(f"copies {name}", loc="left", fontsize=9)
    legend(drawn, 5)
    return drawn


def draw_launches(ax, summary, launches):
    """What a launch costs its caller: the median, and its range over the rounds."""
    sides = list(summary)
    width = 0.8 / len(sides)
    for place, side in enumerate(sides):
        for index, (_, field) in enumerate(launches):
            value = summary[side].get(field)
            if value is None:
                continue
            low, high = summary[side].get("spread", {}).get(field, (value, value))
            ax.bar(
                index + (place - (len(sides) - 1) / 2) * width,
                value / 1e3,
                width * 0.9,
                yerr=[[(value - low) / 1e3], [(high - value) / 1e3]],
                capsize=3,
                color=COLOURS[place % len(COLOURS)],
                label=side,
            )
    ax.set_xticks(range(len(launches)), [label for label, _ in launches])
    ax.set_yscale("log")
    ax.set_ylabel("us")
    ax.set_title("a launch, median", loc="left", fontsize=9)
    ax.grid(axis="x", visible=False)


def draw_copies(ax, summary, way, capacity):
    """GB/s by size, page-locked and pageable; the link's rate as a dashed line."""
    for place, (side, numbers) in enumerate(summary.items()):
        for kind, style in (("pinned", "-"), ("pageable", ":")):
            points = [(entry["bytes"], entry.get(f"{kind}_{way}")) for entry in numbers["copies"]]
            points = [point for point in points if point[1]]
            if points:
                ax.plot(
                    *zip(*points),
                    style,
                    marker="o",
                    ms=3,
                    color=COLOURS[place % len(COLOURS)],
                    label=f"{side}, {'page-locked' if kind == 'pinned' else kind}",
                )
    if capacity:
        ax.axhline(capacity / 1e9, color="black", linestyle="dashed", linewidth=1, label="link")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    sizes = sorted({entry["bytes"] for numbers in summary.values() for entry in numbers["copies"]})
    ax.set_xticks(sizes[::2], [size_text(size) for size in sizes[::2]])
    ax.minorticks_off()
    ax.set_ylabel("GB/s")


def sharing_figure(make, result):
    """What each program had of the device over time, a plot for each scene; the first round."""
    scenes = [scene for scene in result["scenes"] if scene["rounds"]]
    if not scenes:
        return None
    columns = min(3, len(scenes))
    lines = -(-len(scenes) // columns)
    drawn = make(figsize=(3.6 * columns, 0.6 + 2.2 * lines), layout="constrained")
    axes = drawn.subplots(lines, columns, squeeze=False).ravel()
    for ax, scene in zip(axes, scenes):
        draw_shares(ax, scene, result["settings"]["point_s"])
    for ax in axes[len(scenes) :]:
        ax.set_axis_off()
    legend(drawn, 4)
    return drawn


def draw_shares(ax, scene, point_s):
    """Work done in each point of time, over one program alone, and the shares that were asked."""
    for index, points in enumerate(scene["rounds"][0]["points"]):
        colour = COLOURS[index % len(COLOURS)]
        times = [(i + 0.5) * point_s for i in range(len(points))]
        # More programs than colours: those of one colour are told apart by nobody, and are alike.
        label = f"program {index + 1}" if index < len(COLOURS) else None
        ax.plot(times, points, color=colour, linewidth=1, label=label)
    for share in dict.fromkeys(share for share in scene["shares"] if share):
        ax.axhline(share, color="black", linestyle="dashed", linewidth=0.8, label="share asked for")
    ax.set_ylim(bottom=0)
    ax.set_title(scene["name"], loc="left", fontsize=9)
    ax.set_xlabel("s")
    ax.set_ylabel("of one alone")


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
        return "Work of each program over time; the numbers stand in the report below."
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
