"""``python -m gmlearn.cli`` is the command ``gmlearn``."""

import sys

from gmlearn.cli.app import main

sys.exit(main())
