"""MLCA as an answer to the training problem of a k-means energy: its weight, the metric, in
closed form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_mlca.potentials import KMeansEnergy, small_problem
from gmlearn_mlca.statistics import PartitionStatistics


class ClosedForm(gm.Trainer):
    """``gm.train(samples, method="mlca")``: the metric of least worst-case risk, at once.

    The model's `objective` is that of the structured surrogate at the same metric, so that both
    methods can be compared. `MLCA.fit` shares the closed form but not this way to it: it needs sums
    over rows only, and a model with a variable for every row takes 7 to 13 times as long (10^5 rows
    of 50 features).
    """

    name = "mlca"

    def train(self, samples: Sequence[gm.Sample], options: gm.TrainingOptions) -> gm.TrainedModel:
        weights = closed_form_weights(samples)
        if options.loss == "hamming":
            options = dataclasses.replace(options, loss="partition")
        objective = gm.build_objective(samples, options)
        w = objective.layout.join(weights)
        value = objective.value(w, objective.vertices(w))
        return gm.TrainedModel(
            weights, value, settings={"method": self.name}, seed=options.seed, status="closed form"
        )

    def examples(self, rng: np.random.Generator) -> list[tuple[list[gm.Sample], dict[str, Any]]]:
        """Three samples of two small datasets each."""
        return [
            (
                [gm.Sample(*small_problem(rng)) for _ in range(3)],
                {"loss": "partition", "regularizer": gm.L2(0.1)},
            )
        ]


def closed_form_weights(samples: Sequence[Any]) -> dict[str, np.ndarray]:
    """The metric M (d, d) for samples with a `KMeansEnergy` and true labels, as a weight segment;
    O(n d^2 + d^3).

    The datasets of all samples are joined, clusters linked by their label. Among all metrics M has
    the least worst-case risk of Delta on the joined data; its scale, which no partition depends on,
    is set to trace 1. Rows are taken as they are: centre them beforehand if the origin has no
    meaning.

    Parameters
    ----------
    samples : objects with ``crf`` (one `KMeansEnergy` block each, all with one weight segment) and
        ``labels`` (V,).
    """
    from gmlearn_mlca.estimator import MLCA

    if not len(samples):
        raise ValueError("samples: expected at least one, got none")
    statistics: Any = None
    name = ""
    for k, sample in enumerate(samples):
        blocks = [b for b in sample.crf.blocks if isinstance(b, KMeansEnergy)]
        if len(blocks) != 1:
            raise ValueError(
                f"samples[{k}].crf: expected exactly one kmeans_energy block, got {len(blocks)}"
            )
        block, classes = blocks[0], np.arange(blocks[0].n_clusters)
        if statistics is None:
            statistics = PartitionStatistics(block.rows.shape[1], len(classes))
            name = block.weight
        if (name, statistics.n_features, statistics.n_classes) != (
            block.weight,
            block.rows.shape[1],
            len(classes),
        ):
            raise ValueError(
                f"samples[{k}].crf: expected the weight segment {name!r} for "
                f"{statistics.n_features} features and "
                f"{statistics.n_classes} clusters as in samples[0], got {block.weight!r} for "
                f"{block.rows.shape[1]} and {len(classes)}"
            )
        statistics.add(block.rows, np.asarray(sample.labels)[block.members], classes)
    M = MLCA(fit_intercept=False).fit_statistics(statistics).get_mahalanobis_matrix()
    return {name: M / np.trace(M)}
