"""The command line: ``gmlearn solve``, ``run``, ``demo``, ``plugins``, ``check``."""

from gmlearn.cli.app import main

__all__ = ["main"]
