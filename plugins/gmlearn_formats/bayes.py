"""What both formats of Bayesian networks share: variables by name, and conditional tables."""

from __future__ import annotations

import os
from typing import NoReturn

import numpy as np

import gmlearn as gm


class NetworkBuilder:
    """A model of -log p from variables and conditional probabilities by name.

    Parameters
    ----------
    file : for messages.   states : name of each variable -> names of its states.
    n_characters : the length of the file.
    """

    def __init__(self, file: str | os.PathLike, states: dict[str, list[str]], n_characters: int):
        self.file = file
        self.states = states
        self.index = {name: i for i, name in enumerate(states)}
        sizes = np.array([len(values) for values in states.values()], np.int64)
        if not len(sizes) or not sizes.all():
            raise gm.FormatError(file, "variables with at least one state each", "none")
        self.builder = gm.ModelBuilder(sizes, self.fail, n_characters)
        self.defined: set[str] = set()

    def fail(self, expected: str, got: str) -> NoReturn:
        raise gm.FormatError(self.file, expected, got)

    def scope(self, names: list[str], line: int | None = None) -> np.ndarray:
        """The variables of a conditional table, the child first."""
        unknown = [name for name in names if name not in self.index]
        if unknown or not names:
            got = repr(unknown[0][:40]) if unknown else "none"
            raise gm.FormatError(self.file, "variables that were declared", got, line)
        if names[0] in self.defined:
            raise gm.FormatError(
                self.file, "one table for each variable", f"two for {names[0][:40]!r}", line
            )
        self.defined.add(names[0])
        return np.array([self.index[name] for name in names], np.int64)

    def add(self, scope: np.ndarray, probabilities: np.ndarray, line: int | None = None) -> None:
        """Add p(child | parents), an array over `scope`, child first."""
        if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
            raise gm.FormatError(self.file, "probabilities of at least 0", "others", line)
        with np.errstate(divide="ignore"):
            self.builder.add(scope, -np.log(probabilities).ravel())

    def finish(self) -> gm.CRF:
        missing = [name for name in self.states if name not in self.defined]
        if missing:
            self.fail("a probability table for each variable", f"none for {missing[0][:40]!r}")
        return self.builder.finish()
