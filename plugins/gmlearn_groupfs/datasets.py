"""The real sets of the experiment as kernel banks, rows in random order."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmlearn_groupfs.kernels import KernelBank


@dataclass(frozen=True, eq=False)
class LabelledBank:
    """A bank, its true classes (n,), and size bounds by the paper's rule: .8 of the smallest,
    1.2 of the largest class.
    """

    name: str
    bank: KernelBank
    truth: np.ndarray

    @property
    def n_clusters(self) -> int:
        return int(self.truth.max()) + 1

    @property
    def sizes(self) -> tuple[int, int]:
        count = np.bincount(self.truth)
        return math.floor(0.8 * count.min()), math.ceil(1.2 * count.max())


def load_views(
    path: Path, name: str, rng: np.random.Generator, per_class: int | None = None
) -> LabelledBank:
    """A multi-view file (view0, view1, ..., labels), shuffled; `per_class` random samples of
    each class if given.
    """
    with np.load(path) as file:
        truth = file["labels"].astype(int)
        views = [file[key].astype(float) for key in sorted(file.files) if key.startswith("view")]
    kept = [rng.permutation(np.flatnonzero(truth == c))[:per_class] for c in np.unique(truth)]
    rows = rng.permutation(np.concatenate(kept))
    return LabelledBank(name, KernelBank.from_views([view[rows] for view in views]), truth[rows])


def load_kernel_set(path: Path, name: str, rng: np.random.Generator) -> LabelledBank:
    """The twelve kernels of Du et al.

    (IJCAI 2015) over the rows of X, each divided by sqrt(K_ii K_jj).
    """
    with np.load(path) as file:
        truth, points = file["labels"].astype(int), file["X"].astype(float)
    rows = rng.permutation(truth.size)
    points, truth = points[rows], truth[rows]
    gram = points @ points.T
    squared = np.maximum(np.diag(gram)[:, None] + np.diag(gram)[None, :] - 2.0 * gram, 0.0)
    widths = (0.01, 0.05, 0.1, 1.0, 10.0, 50.0, 100.0)
    kernels = [gram, (gram + 1) ** 2, (gram + 1) ** 4, gram**2, gram**4]
    kernels += [np.exp(-squared / (2.0 * t**2 * squared.max())) for t in widths]
    scaled = [k / np.sqrt(np.outer(np.diag(k), np.diag(k))) for k in kernels]
    names = ["linear", "(1+xy)^2", "(1+xy)^4", "(xy)^2", "(xy)^4", *(f"rbf {t:g}" for t in widths)]
    return LabelledBank(name, KernelBank.from_kernels(scaled, names), truth)


def published(path: Path, dataset: str) -> dict[str, tuple[float, float]]:
    """ACC and NMI by method, as published for one kernel set."""
    with open(path, newline="") as file:
        rows: list[dict[str, Any]] = [
            row for row in csv.DictReader(file) if row["dataset"] == dataset
        ]
    return {row["method"]: (float(row["acc"]), float(row["nmi"])) for row in rows}
