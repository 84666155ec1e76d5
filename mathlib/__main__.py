"""python -m mathlib: the formulas from the command line."""

import sys

from mathlib.cli.parser import main

if __name__ == "__main__":
    sys.exit(main())
