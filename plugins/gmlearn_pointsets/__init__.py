"""Point sets: a matching distance that ignores order, position and rotation, and clustering with it."""

from __future__ import annotations

import importlib
from typing import Any

#: public name -> module that holds it, imported on first use
_EXPORTS = {
    "PointSetClustering": "estimator",
    "PointSetMatch": "distance",
    "point_set_distance": "distance",
    "softassign": "sinkhorn",
    "SoftAssignment": "sinkhorn",
    "hard_assignment": "sinkhorn",
    "fit_rigid": "rigid",
    "make_point_sets": "generate",
    "centre_errors": "generate",
    "digit_point_sets": "digits",
    "Assignment": "potentials",
    "SoftassignSolver": "slaves",
    "plot_centres": "plots",
    "plot_match": "plots",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'gmlearn_pointsets' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gmlearn_pointsets.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
