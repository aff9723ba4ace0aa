"""MAP solvers by name. Knows no training."""

from gmlearn.solve.api import SolverRefusal, solve
from gmlearn.solve.problem import MapSolver, Options, Problem
from gmlearn.solve.result import History, Result, Status

__all__ = ["History", "MapSolver", "Options", "Problem", "Result", "SolverRefusal", "Status", "solve"]
