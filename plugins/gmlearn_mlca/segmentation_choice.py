"""The features' settings, chosen on training images alone: cross-validated Rand loss, split by
split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from operator import add
from typing import Any

import numpy as np

from gmlearn_mlca.estimator import MLCA
from gmlearn_mlca.metrics import rand_loss
from gmlearn_mlca.segmentation import multiscale_features, patch_features
from gmlearn_mlca.statistics import PartitionStatistics

FOLDS = 5
#: of the pixels of a validation image every third is scored
EVERY = 3
Settings = Mapping[str, Any]


def candidates(names: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values given by name."""
    return [dict(zip(names, values)) for values in product(*names.values())]


#: by key: title, features, and the settings among which each split chooses
FAMILIES: dict[str, tuple[str, Callable[..., np.ndarray], list[dict[str, Any]]]] = {
    "sift_colour": (
        "SIFT-like + colour",
        patch_features,
        candidates(
            {
                "cell": (2, 3, 4, 6),
                "blur": (0.5, 1.0, 2.0),
                "colour": ("plain", "contrast"),
                "root": (False, True),
            }
        ),
    ),
    "multiscale": (
        "multi-scale gradients and colour, position",
        multiscale_features,
        candidates({"cells": ((2, 4), (4, 8)), "root": (False, True)}),
    ),
}


def image_statistics(features: np.ndarray, truth: np.ndarray) -> PartitionStatistics:
    """What MLCA needs of one image's pixels (n, d) and their sides (n,); the sum over images is
    a training set.
    """
    return PartitionStatistics(features.shape[1], 2).add(features, truth, np.arange(2))


def cross_validated_rand(
    features: Mapping[int, np.ndarray],
    truth: Sequence[np.ndarray],
    statistics: Mapping[int, PartitionStatistics],
    train: np.ndarray,
) -> float:
    """Mean Rand loss of multivariate MLCA on each training image, learnt without the fold that
    the image is in.
    """
    losses = []
    for fold in range(FOLDS):
        held = train[fold::FOLDS]
        model = MLCA(n_init=2, random_state=0)
        model.fit_statistics(
            reduce(add, (statistics[i] for i in np.setdiff1d(train, held))), dtype=np.float32
        )
        losses += [rand_loss(model.predict(features[i][::EVERY]), truth[i][::EVERY]) for i in held]
    return float(np.mean(losses))


def validation_losses(
    describe: Callable[..., np.ndarray],
    settings: Iterable[Settings],
    images: Sequence[np.ndarray],
    truth: Sequence[np.ndarray],
    trains: Sequence[np.ndarray],
) -> np.ndarray:
    """Cross-validated Rand loss (settings, splits); split s sees the images ``trains[s]`` and no
    other.
    """
    rows = []
    for setting in settings:
        needed = np.unique(np.concatenate(trains)).tolist()
        features = {i: describe(images[i], **setting) for i in needed}
        statistics = {i: image_statistics(features[i], truth[i]) for i in needed}
        rows.append([cross_validated_rand(features, truth, statistics, train) for train in trains])
    return np.array(rows)


def describe_settings(setting: Settings) -> str:
    """The settings in words, for tables."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())
