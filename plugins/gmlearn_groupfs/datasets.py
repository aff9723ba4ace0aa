"""The real sets of the experiment as kernel banks, rows in random order."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmlearn_groupfs.kernels import KernelBank


@dataclass(frozen=True, eq=False)
class LabelledBank:
    """A bank, its true classes (n,), and the views side by side, standardised (n, d)."""

    name: str
    bank: KernelBank
    truth: np.ndarray
    points: np.ndarray

    @property
    def n_clusters(self) -> int:
        return int(self.truth.max()) + 1


def load_views(path: Path, name: str, rng: np.random.Generator, part: float = 1.0) -> LabelledBank:
    """A multi-view file (view0, view1, ..., labels), shuffled; `part` of each class at random: a
    share up to 1, or a number of samples.
    """
    with np.load(path) as file:
        truth = file["labels"].astype(int)
        views = [file[key].astype(float) for key in sorted(file.files) if key.startswith("view")]
    rows = _some_of_each(truth, part, rng)
    bank = KernelBank.from_views([view[rows] for view in views])
    return LabelledBank(name, bank, truth[rows], np.hstack(bank.views))


def _some_of_each(truth: np.ndarray, part: float, rng: np.random.Generator) -> np.ndarray:
    """Rows in random order, `part` of each class."""
    kept = []
    for c in np.unique(truth):
        own = rng.permutation(np.flatnonzero(truth == c))
        kept.append(own[: int(part) if part > 1 else round(part * own.size)])
    return rng.permutation(np.concatenate(kept))


def load_kernel_set(
    path: Path, name: str, rng: np.random.Generator, part: float = 1.0
) -> LabelledBank:
    """The twelve kernels of Du et al. (IJCAI 2015) over the rows of X, each divided by
    sqrt(K_ii K_jj); `part` as in `load_views`.
    """
    with np.load(path) as file:
        truth, points = file["labels"].astype(int), file["X"].astype(float)
    rows = _some_of_each(truth, part, rng)
    points, truth = points[rows], truth[rows]
    gram = points @ points.T
    squared = np.maximum(np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2.0 * gram, 0.0)
    widths = (0.01, 0.05, 0.1, 1.0, 10.0, 50.0, 100.0)
    kernels = [gram, (gram + 1) ** 2, (gram + 1) ** 4, gram**2, gram**4]
    kernels += [np.exp(-squared / (2.0 * t**2 * squared.max())) for t in widths]
    scaled = [k / np.sqrt(np.outer(np.diag(k), np.diag(k))) for k in kernels]
    names = ["linear", "(1+xy)^2", "(1+xy)^4", "(xy)^2", "(xy)^4", *(f"rbf {t:g}" for t in widths)]
    return LabelledBank(name, KernelBank.from_kernels(scaled, names), truth, points)


def published(path: Path, dataset: str) -> dict[str, tuple[float, float]]:
    """ACC and NMI by method, as published for one kernel set."""
    with open(path, newline="") as file:
        rows: list[dict[str, Any]] = [
            row for row in csv.DictReader(file) if row["dataset"] == dataset
        ]
    return {row["method"]: (float(row["acc"]), float(row["nmi"])) for row in rows}
