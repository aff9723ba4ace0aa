"""gmlearn: define, solve and learn high-order graphical models.

Everything public is a name of this package; names are imported on first use, so
``import gmlearn`` stays as light as numpy.
"""

from __future__ import annotations

import importlib
from typing import Any

from gmlearn._version import __version__ as __version__

#: public name -> module that holds it
_EXPORTS: dict[str, str] = {
    name: module
    for module, names in {
        "gmlearn.registry": "hookimpl register plugins PluginError PluginWarning UnknownNameError",
        "gmlearn.potentials": "Block RaggedBlock PairwiseForm Unary Potts Truncated Difference LearntTable Pairwise Table",
        "gmlearn.model": "CRF WeightLayout grid_edges grid_cliques find_grid",
        "gmlearn.model.graph": "to_networkx from_networkx",
        "gmlearn.slaves": "SlaveSolver SlaveGroup SlaveResult SoftResult CliqueGroup ForestGroup FreeGroup expected_features",
        "gmlearn.decompositions": "Decomposition Slaves Subgraphs decompose",
        "gmlearn.master": "Dual Round",
        "gmlearn.solvers": "solve MapSolver Problem Result Status SolverRefusal",
        "gmlearn.losses": "Loss Hamming WeightedHamming LabelDistance NoLoss",
        "gmlearn.learn": (
            "train Sample LazySamples TrainedModel TrainingHistory TrainingOptions Trainer Optimizer PassReport Objective "
            "build_objective load "
            "Regularizer NoRegularizer L1 L2 ElasticNet GroupL2 ConvexSet Box NonNegative Simplex Fixed Projection"
        ),
        "gmlearn.parallel": "Executor make_executor",
        "gmlearn.io": "read write read_evidence read_weights read_sample write_sample FileFormat FormatError",
        "gmlearn.experiments": "Experiment Run",
        "gmlearn._utils.progress": "progress",
        "gmlearn._utils.files": "atomic_write",
        "gmlearn._utils.lazy": "lazy_exports",
        "gmlearn._utils.validation": "check_array check_choice check_index check_number",
    }.items()
    for name in names.split()
}
_MODULES = ("plot", "testing")

__all__ = sorted([*_EXPORTS, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"gmlearn.{name}")
    else:
        raise AttributeError(f"module 'gmlearn' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
