"""The paper's loop: train the cluster classifiers on the labels, assign the points anew, until
the loss stops dropping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gmlearn_groupfs.assignment import assignment_costs
from gmlearn_groupfs.potential import constrained_assignment


class Classifiers(Protocol):
    """What the loop needs of a family of cluster classifiers."""

    name: str

    def scores(self, labels: np.ndarray, iteration: int, seed: int) -> np.ndarray:
        """Cross-fitted scores (n, C)."""

    def model(self, labels: np.ndarray, iteration: int, seed: int) -> Any:
        """Classifiers trained on all points: `decision(cross)` and `usage`."""


@dataclass(frozen=True)
class Alternation:
    """The best labels met, their loss, the iteration that found them, and the loss after every
    iteration.
    """

    labels: np.ndarray
    loss: float
    iteration: int
    history: list[float]


def make_assigner(
    sizes: Any, must_link: Any, cannot_link: Any
) -> Callable[[np.ndarray], np.ndarray]:
    """costs -> labels under fixed constraints."""
    return lambda costs: constrained_assignment(costs, sizes, must_link, cannot_link)


def alternate(
    classifiers: Classifiers,
    labels: np.ndarray,
    assign: Callable[[np.ndarray], np.ndarray],
    *,
    max_iter: int,
    patience: int,
    seed: int,
    loss: str = "log",
    tol: float = 1e-9,
) -> Alternation:
    """Alternate from `labels` until the labels repeat or the loss has not dropped, by more than its
    share `tol`, for `patience` iterations.
    """
    best = Alternation(labels, np.inf, 0, [])
    history: list[float] = []
    rows = np.arange(labels.size)
    for t in range(max_iter):
        costs, constant = assignment_costs(classifiers.scores(labels, t, seed), loss)
        new = assign(costs)
        history.append(constant + float(costs[rows, new].sum()))
        if best.loss == np.inf or history[-1] < best.loss - tol * abs(best.loss):
            best = Alternation(new, history[-1], t, history)
        # a classifier without randomness or growth would only repeat itself from the same labels
        if t - best.iteration >= patience or (
            classifiers.name == "contrast" and np.array_equal(new, labels)
        ):
            break
        labels = new
    return best
