"""``python -m gmlearn``: the command line."""

import sys

from gmlearn.cli import main

if __name__ == "__main__":
    sys.exit(main())
