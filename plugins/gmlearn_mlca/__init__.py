"""MLCA: Mahalanobis metrics for supervised clustering, in closed form and by a spectral slave.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS: dict[str, str] = {
    name: f"gmlearn_mlca.{module}"
    for module, names in {
        "estimator": "MLCA",
        "baselines": "ITML KISSME XQDA",
        "surrogate": "SpectralMetric",
        "statistics": "PartitionStatistics",
        "metrics": "clustering_accuracy contingency_table delta_loss normalised_mutual_information rand_loss",
        "potentials": "KMeansEnergy PartitionDistance",
        "slaves": "SpectralDecomposition",
    }.items()
    for name in names.split()
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'gmlearn_mlca' has no attribute {name!r}")
    value = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
