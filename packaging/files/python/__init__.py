"""Busbar: plugs any machine into any accelerator.

The package holds the program `busbar` and its libraries; `python -m busbar` starts it.
"""

import os

__all__ = ["PROGRAM"]

#: The path of the program.
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "busbar")
