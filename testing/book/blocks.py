"""What pages hold for the test: blocks of a shell's commands, what they print, and files.

A block's words after its language say how it is run; readers do not see them:

    sh                  run on the machine without a GPU
    sh on=NAME          run on another machine: gpu-host, host-a, host-b
    sh stays            goes on in the background until the page ends, once it has printed what the
                        page says
    sh status=N         ends with this exit status
    sh needs-REASON     not run; REASONS says why. Its lines with `busbar` are parsed all the same.
    text                right after a block of commands: what it prints. `...` stands for any text
                        in a line, and for any lines where it stands alone; TOKEN@ and =KEY as well.
    LANGUAGE file=NAME  a file, written into the folder of the machine without a GPU, or of on=NAME
"""

import dataclasses
import pathlib
import re

# Why a block may not be run. There are no others.
REASONS = {
    "needs-gpu": "a GPU, or a program that needs one",
    "needs-docker": "Docker, or what else starts containers",
    "needs-root": "a system of its own: packages, services",
    "needs-network": "downloads",
    "needs-checkout": "a checkout; builds",
    "needs-person": "someone who looks at a screen",
}
MACHINES = ("laptop", "gpu-host", "host-a", "host-b")
OPEN = re.compile(r"^```(?P<language>\w+)(?P<words>.*)$")


class Wrong(Exception):
    """A sentence for the writer of a page."""


@dataclasses.dataclass
class Block:
    """One block of a page."""

    page: pathlib.Path
    line: int
    language: str
    text: str
    machine: str = MACHINES[0]
    stays: bool = False
    status: int = 0
    reason: str | None = None
    file: str | None = None
    # What it prints, if the page says so.
    prints: str | None = None

    def where(self):
        return f"{self.page}:{self.line}"

    def read_words(self, words):
        for word in words.split():
            name, _, value = word.partition("=")
            if word == "stays":
                self.stays = True
            elif word in REASONS:
                self.reason = word
            elif name == "on" and value in MACHINES:
                self.machine = value
            elif name == "status" and value.isdigit():
                self.status = int(value)
            elif name == "file" and value:
                self.file = value
            else:
                raise Wrong(f"{self.where()}: {word!r} is no word of a block")


def blocks(page, text):
    """The blocks of a page, in order; what one prints is a part of it."""
    found, inside, between = [], None, True
    for number, line in enumerate(text.splitlines(), 1):
        if inside is None:
            opened = OPEN.match(line)
            if opened:
                inside = Block(page, number, opened["language"], "")
                inside.read_words(opened["words"])
            elif line.startswith("```"):
                inside = Block(page, number, "", "")
            elif line.strip():
                between = False
        elif line.startswith("```"):
            if inside.language == "text" and between and found and found[-1].language == "sh":
                found[-1].prints = inside.text
            else:
                found.append(inside)
            inside, between = None, True
        else:
            inside.text += line + "\n"
    if inside is not None:
        raise Wrong(f"{inside.where()}: the block has no end")
    for block in found:
        if block.stays and block.prints is None and not block.reason:
            raise Wrong(f"{block.where()}: what stays has to print something")
    return found


def squeezed(line):
    """A line without what tables add to it."""
    return re.sub(r"\s+", " ", line).strip()


def pattern(expected):
    """What a page says is printed, as a regular expression for squeezed lines."""
    lines = []
    for line in expected.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        parts = re.split(r"\.\.\.|TOKEN(?=@)|(?<==)KEY", squeezed(line))
        lines.append(".*?".join(map(re.escape, parts)) + r"\n")
    return re.compile("".join(lines))


def fits(expected, printed):
    """Whether a page says rightly what is printed."""
    lines = "".join(squeezed(line) + "\n" for line in printed.strip().splitlines())
    return pattern(expected.strip()).fullmatch(lines) is not None


def commands(text):
    """The commands of a block, each as a line: without comments, continued lines joined."""
    text = re.sub(r"\\\n\s*", " ", text)
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
