"""MAP solvers by name. Knows no training."""

from gmlearn.solvers.api import solve
from gmlearn.solvers.problem import MapSolver, Options, Problem, SolverRefusal
from gmlearn.solvers.result import History, Result, Status

__all__ = [
    "History",
    "MapSolver",
    "Options",
    "Problem",
    "Result",
    "SolverRefusal",
    "Status",
    "solve",
]
