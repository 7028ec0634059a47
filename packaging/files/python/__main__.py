"""Becomes the program `busbar`, which lies in this package."""

import os
import signal
import sys

from busbar import PROGRAM


def main():
    """Does not return: the process is the program from here on."""
    # Python ignores these two, and the program would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(PROGRAM, [PROGRAM, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"busbar: cannot run {PROGRAM}: {e.strerror}; install the package again")


if __name__ == "__main__":
    main()
