"""Learning to cluster with exemplars: the energy, its optimisers, and the learning of its distances."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "ExemplarClustering": "estimator",
    "ExemplarSolution": "solver", "minimise_exemplars": "solver", "exemplars_of_number": "solver",
    "exemplar_energy": "energy", "assign": "energy",
    "neighbour_costs": "sparse", "draw_landmarks": "sparse",
    "ExemplarClusteringLearner": "learner", "DistanceBank": "distances", "LDAProjection": "fitted_distances",
    "LDAPosterior": "fitted_distances", "MLCAProjection": "fitted_distances",
    "noisy_gaussians": "synthetic",
    "clustering_loss": "losses", "ClusteringLoss": "losses", "medoid_completion": "completion",
    "ExemplarBlock": "potentials", "ExemplarCountBlock": "potentials", "exemplar_model": "potentials", "training_slaves": "slaves",
    "training_sample": "slaves",
    "ExemplarDecomposition": "slaves",
    "ClusteringSlaves": "slaves", "PointSlaves": "slaves", "ClusterSlaves": "slaves",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'gmlearn_clustering' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gmlearn_clustering.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
