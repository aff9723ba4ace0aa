"""The exemplar-clustering energy as potentials of a gmlearn model.

One variable x_p per point, whose states are the points: x_p = q assigns p to q, x_q = q makes q an
exemplar. The indicators [x_p = q] are the paper's binary variables x_pq, "exactly one" is built in,
and the implication x_pq <= x_qq is the block's hard constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_clustering.distances import (
    EuclideanSample,
    FixedDistances,
    MatrixSample,
    SampleDistances,
)
from gmlearn_clustering.energy import with_penalty

DISTANCE, PENALTY = "distance", "penalty"
#: features that a file holds: the array's name, the class that it makes, and its dimensions
SAMPLES: dict[str, Any] = {
    "distances": FixedDistances,
    "matrices": MatrixSample,
    "Z": EuclideanSample,
}
NDIM = {"distances": 2, "matrices": 3, "Z": 2}


class ExemplarBlock(gm.Block):
    """sum over p of d_{p, x_p} with d_pq = w . f_pq for p != q and d_qq the exemplar penalty; +inf
    unless x_{x_p} = x_p for all p.

    Parameters
    ----------
    sample : the features f_pq of the points, or fixed distances (`FixedDistances`), which have no
        weights.
    penalty : d_qq, one number or (N,), +inf forbids; None makes it the weight "penalty".
    penalty_features : (N, G), for a learnt penalty d_qq = v . g_q with G weights; None: one weight
        for all points.
    """

    name = "exemplar"

    def __init__(
        self,
        sample: SampleDistances,
        penalty: float | np.ndarray | None = 1.0,
        penalty_features: np.ndarray | None = None,
    ):
        super().__init__(np.arange(sample.n_points)[None, :])
        self.sample = sample
        self.penalty = penalty
        if penalty is not None:
            shape = (sample.n_points,) if np.ndim(penalty) else ()
            self.penalty = gm.check_array("penalty", penalty, shape=shape, allow_inf=True)
        if penalty_features is None:
            penalty_features = np.ones((sample.n_points, 1))
        self.penalty_features = gm.check_array(
            "penalty_features", penalty_features, shape=(sample.n_points, None)
        )

    def segments(self) -> dict[str, tuple[int, ...]]:
        shape = self.penalty_features.shape[1:]
        own: dict[str, tuple[int, ...]] = {} if self.penalty is not None else {PENALTY: shape}
        return {DISTANCE: (self.sample.n_features,), **own} if self.sample.n_features else own

    def state(self) -> dict[str, Any]:
        """The penalty, and the features by the name of the array that holds them."""
        for name, kind in SAMPLES.items():
            if type(self.sample) is kind:
                return {"penalty": self.penalty, name: getattr(self.sample, name)}
        raise ValueError(
            f"{self}: a file holds features of the kinds "
            f"{', '.join(kind.__name__ for kind in SAMPLES.values())}, not "
            f"{type(self.sample).__name__}"
        )

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ExemplarBlock:
        names = [name for name in SAMPLES if name in state]
        if len(names) != 1 or len(state) != 2:
            raise ValueError(f"expected a penalty and one of {', '.join(SAMPLES)}")
        name = names[0]
        array = gm.check_array(name, state[name], ndim=NDIM[name], allow_inf=name == "distances")
        if name == "matrices" and (array.shape[1] != array.shape[2] or not len(array)):
            raise ValueError(f"matrices: expected shape (F, N, N), got {array.shape}")
        if name == "Z" and not array.size:
            raise ValueError(f"Z: expected points with features, got shape {array.shape}")
        return cls(SAMPLES[name](array), state["penalty"])

    def check(self) -> None:
        if (self.states != self.sample.n_points).any():
            raise ValueError(
                f"{self}: every variable needs {self.sample.n_points} states, one a point"
            )

    def exemplar_penalty(self, w: Mapping[str, np.ndarray]) -> Any:
        """d_qq, a number or (N,)."""
        if self.penalty is not None:
            return self.penalty
        per_point = self.penalty_features.shape[1] > 1
        return self.penalty_features @ w[PENALTY] if per_point else w[PENALTY][0]

    def penalty_sum(self, chosen: np.ndarray) -> np.ndarray:
        """sum over q of chosen_q g_q, (G,): the features of the penalties of exemplars."""
        return chosen @ self.penalty_features

    def costs(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """d_pq (N, N) with the penalties on the diagonal."""
        return with_penalty(self.sample.matrix(w.get(DISTANCE)), self.exemplar_penalty(w))

    def energy(self, x: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        values = np.full(len(x), np.inf)
        points = np.arange(self.sample.n_points)
        penalty = np.broadcast_to(self.exemplar_penalty(w), points.shape)
        for m, labels in enumerate(x):
            if (labels[labels] == labels).all():
                values[m] = penalty[labels == points].sum()
                if self.sample.n_features:
                    values[m] += w[DISTANCE] @ self.sample.gather(labels)
                else:
                    values[m] += self.sample.matrix(None)[points, labels].sum()
        return values

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        weight = np.ones(len(x)) if weight is None else weight
        total = {name: np.zeros(shape) for name, shape in self.segments().items()}
        for m, labels in enumerate(x):
            if DISTANCE in total:
                total[DISTANCE] += weight[m] * self.sample.gather(labels)
            if PENALTY in total:
                chosen = (labels == np.arange(len(labels))).astype(np.float64)
                total[PENALTY] += weight[m] * self.penalty_sum(chosen)
        return total

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Those of `small_models`."""
        return [(crf.blocks[0], w) for crf, w in small_models(rng)]

    @classmethod
    def large_examples(
        cls, rng: np.random.Generator
    ) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Forty points, with a fixed penalty and a learnt one."""
        return [(crf.blocks[0], w) for crf, w in small_models(rng, 40)[::2]]


class ExemplarCountBlock(gm.RaggedBlock):
    """-alpha |1 - number of exemplars in C| for every clique C: the loss's high-order part with
    its sign turned.
    """

    name = "exemplar_count"
    per_member = ("points",)

    def __init__(self, cliques: Any, alpha: float, points: Any = None):
        super().__init__(cliques)
        # the label that makes a member an exemplar: its number within its own model, also where
        # models are joined
        self.points = self.members
        if points is not None:
            shape = self.members.shape
            self.points = gm.check_array("points", points, shape=shape, dtype=np.int64)
        self.alpha = float(gm.check_number("alpha", alpha, low=0.0))

    def check(self) -> None:
        if ((self.points < 0) | (self.points >= self.states)).any():
            raise ValueError(f"{self}: points: expected labels of the members")

    def energy(self, x: np.ndarray, w: Mapping[str, np.ndarray]) -> np.ndarray:
        is_exemplar = (x == self.points).astype(float)
        return -self.alpha * np.abs(1.0 - np.add.reduceat(is_exemplar, self.indptr[:-1]))

    @classmethod
    def examples(cls, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        """Cliques of different sizes."""
        return [(cls([[2, 0], [1], [3, 4, 1]], rng.random()).bind(np.full(5, 5)), {})]


def exemplar_model(
    sample: SampleDistances | np.ndarray,
    penalty: float | np.ndarray | None = 1.0,
    penalty_features: np.ndarray | None = None,
) -> gm.CRF:
    """The clustering model of one sample: N variables with N states each, one exemplar block.

    Parameters
    ----------
    sample : features with learnt weights, or fixed distances (N, N), whose diagonal is ignored.
    penalty, penalty_features : d_qq, see `ExemplarBlock`.

    Examples
    --------
    >>> import gmlearn as gm
    >>> from gmlearn_clustering import exemplar_model
    >>> distances = np.abs(np.subtract.outer([0.0, 0.1, 5.0, 5.3], [0.0, 0.1, 5.0, 5.3]))
    >>> result = gm.solve(exemplar_model(distances, penalty=1.0))
    >>> result.labels.tolist(), result.status.value
    ([0, 0, 2, 2], 'optimal')
    """
    if isinstance(sample, np.ndarray):
        sample = FixedDistances(sample)
    crf = gm.CRF(np.full(sample.n_points, sample.n_points))
    crf.add(ExemplarBlock(sample, penalty, penalty_features))
    return crf


def small_models(
    rng: np.random.Generator, n_points: int = 4
) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
    """For checks, models of a few points with weights: asymmetric distances; the penalty positive,
    so negative that every point is an exemplar, and learnt.
    """
    made = []
    for penalty in (0.7, -4.0, None):
        crf = exemplar_model(MatrixSample(rng.random((2, n_points, n_points))), penalty)
        made.append((crf, {name: rng.random(shape) for name, shape in crf.layout.shapes.items()}))
    return made


def local_scales(sample: SampleDistances, n_neighbors: int = 5) -> np.ndarray:
    """Features (N, 2) of a point's penalty: 1, and its mean distance to the nearest neighbours
    under the average of the features.
    """
    average = with_penalty(sample.matrix(np.full(sample.n_features, 1 / sample.n_features)), np.inf)
    n = min(n_neighbors, sample.n_points - 1)
    near = np.partition(average, n - 1, axis=1)[:, :n]
    return np.column_stack([np.ones(sample.n_points), near.mean(axis=1)])
