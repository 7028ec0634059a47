"""``python -m busbar_bench`` is the command ``busbar-bench``."""

import sys

from busbar_bench.cli import main

sys.exit(main())
