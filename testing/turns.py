"""What the turns of a GPU were, by the log of a server that was started with BUSBAR_LOG=trace.

    BUSBAR_LOG=trace busbar serve ... 2> LOG
    python3 testing/turns.py LOG

A table of a line for each set of sessions that shared a device: how many turns there were, how long
they and the hand-overs took, and how long work of a session went on beside another one's turn. A
turn begins with the word to whoever has it and ends with that to the next one; a hand-over is the
end of it, from the word to stop on. Times are in milliseconds.
"""

import argparse
import collections
import re
import sys

LINE = re.compile(r"\bTRACE (?P<said>turn=.*) device=(?P<device>\d+) us=(?P<us>\d+)")
SESSION = re.compile(r"; (?P<of>\d+) (?P<rest>[^;]*)")
TENTHS = (0.1, 0.5, 0.9)


class Seen:
    """One line: whose turn it is, whether it ends, and whose work is under way."""

    def __init__(self, match):
        said = match["said"]
        head, _, _ = said.partition(";")
        who, _, ends = head.removeprefix("turn=").partition(" ")
        self.turn, self.ends = frozenset(filter(None, who.split("+"))), bool(ends)
        rest = {s["of"]: s["rest"].split() for s in SESSION.finditer(said)}
        self.sessions = frozenset(rest)
        self.busy = {of for of, words in rest.items() if "under_way" in words}
        self.at, self.device = int(match["us"]) / 1e3, match["device"]


class Turns:
    """The turns of one set of sessions."""

    def __init__(self):
        self.turns, self.hand_overs, self.beside = [], [], 0.0
        self.together = self.all = 0.0
        self.last = self.begun = self.stopped = None

    def see(self, seen):
        last = self.last
        if last is not None:
            past = seen.at - last.at
            self.all += past
            self.beside += past if last.turn and last.busy - last.turn else 0.0
            self.together += past if len(last.turn) > 1 else 0.0
        if last is None or seen.turn != last.turn:
            if self.begun is not None:
                self.turns.append(seen.at - self.begun)
            if self.stopped is not None:
                self.hand_overs.append(seen.at - self.stopped)
            self.begun, self.stopped = (seen.at if seen.turn else None), None
        if seen.ends and self.stopped is None:
            self.stopped = seen.at
        self.last = seen


def quantiles(values):
    """Three of them, as text."""
    values = sorted(values)
    if not values:
        return "-"
    return " ".join(f"{values[int(q * (len(values) - 1))]:.2f}" for q in TENTHS)


def read(lines):
    """All sets of sessions, by device, in the order in which they came."""
    found = collections.OrderedDict()
    for line in lines:
        match = LINE.search(line)
        if match:
            seen = Seen(match)
            found.setdefault((seen.device, seen.sessions), Turns()).see(seen)
    return found


def table(found):
    head = ("device", "sessions", "s", "turns", "turn 10 50 90 %", "hand-over 10 50 90 %",
            "together", "beside")  # fmt: skip
    rows = [head]
    for (device, sessions), of in found.items():
        if of.turns:
            part = lambda t, of=of: f"{100 * t / max(of.all, 1e-9):.0f} %"
            rows.append((device, str(len(sessions)), f"{of.all / 1e3:.1f}", str(len(of.turns)),
                         quantiles(of.turns), quantiles(of.hand_overs),
                         part(of.together), part(of.beside)))  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("log")
    with open(p.parse_args().log, errors="replace") as lines:
        found = read(lines)
    if not any(of.turns for of in found.values()):
        sys.exit("no turn in it: say BUSBAR_LOG=trace to the server, and -p to two programs")
    print(table(found))


if __name__ == "__main__":
    main()
