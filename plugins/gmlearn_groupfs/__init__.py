"""Multi-kernel clustering with group-dependent feature selection.

Names are imported on first use, so that registering the plugin stays light.
"""

from __future__ import annotations

import importlib
from typing import Any

#: public name -> module that holds it
_EXPORTS = {
    "AssignmentSolver": "potential", "ClusterLoss": "potential", "GroupFeatureClustering": "estimator",
    "KernelBank": "kernels", "constrained_assignment": "assignment", "greedy_assignment": "assignment",
    "make_grouped_views": "synthetic",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'gmlearn_groupfs' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gmlearn_groupfs.{_EXPORTS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
