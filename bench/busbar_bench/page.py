"""One HTML page for results of any kind; it needs nothing else and has the raw numbers inside."""

import json
import re

from busbar_bench import collection, figures, kinds
from busbar_bench.published import LINKS


def template():
    """The page, without what goes into it."""
    try:
        import jinja2
    except ImportError as error:
        raise figures.Missing("pages need jinja2 (pip install jinja2)") from error
    loader = jinja2.PackageLoader("busbar_bench", "templates")
    made = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    return made.get_template("page.html")


def pages(found, title):
    """The page of several results."""
    # No text in the raw numbers can end the script element in which they lie.
    raw = json.dumps(found if len(found) > 1 else found[0]).replace("<", "\\u003c")
    return template().render(
        title=title,
        links=links_of(found),
        sections=[section(result) for result in found],
        raw=raw,
    )


def page(result):
    """The page of one result."""
    return pages([result], f"busbar-bench {result['table']}")


def section(result):
    """What the page says of one result."""
    met, bars = verdicts(result)
    return {
        "name": kinds.of(result).title(result),
        "anchor": anchor(result),
        "met": met,
        "bars": bars,
        "about": about(result),
        "figure": figures.svg(result),
        "description": figures.description(result),
        **dict(zip(("head", "rows"), kinds.of(result).grid(result))),
        "report": collection.text(result),
        "machine": {key: json.dumps(value) for key, value in result.get("machine", {}).items()},
    }


def about(result):
    """When and how much was measured."""
    settings = result["settings"]
    parts = [result["started"]]
    if settings.get("rounds"):
        parts.append(f"{settings['rounds']} rounds")
    if settings.get("steps"):
        parts.append(f"{settings['warmup']} warm-up and {settings['steps']} measured steps")
    return ", ".join(parts) + "."


def anchor(result):
    """A result's name in addresses of pages and in names of files."""
    # What was measured several times over in one sitting has the way in its title.
    name = kinds.of(result).title(result) if result["table"] == "micro" else result["table"]
    return re.sub(r"\W+", "-", name.lower()).strip("-")


def verdicts(result):
    """How many bars a result meets, and how many it has."""
    all_of = [verdict for _, verdict, _ in kinds.of(result).verdicts(result)]
    judged = [verdict for verdict in all_of if verdict in ("pass", "fail", "error")]
    return judged.count("pass"), len(judged)


def links_of(found):
    """A sentence on each link that was emulated."""
    links = {row["link"] for result in found for row in result.get("rows", [])}
    links |= {result["settings"].get("link") for result in found}
    said = []
    for name in sorted(links & LINKS.keys()):
        delay, rate = LINKS[name]
        speed = f", {rate * 8 / 1e9:g} Gb/s" if rate else ""
        said.append(f"{name}: {delay * 1e6:g} us each way{speed}")
    return said
