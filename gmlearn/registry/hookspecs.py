"""The contract between gmlearn and its plugins: one hook per kind of thing.

A plugin is any module (or object) that implements some of these functions with
``gmlearn.hookimpl`` and is named in the entry-point group ``gmlearn``. The
built-in parts come in through the same hooks (see ``gmlearn/builtin.py``). Every
hook returns a list; all answers are kept, and two owners of one name are an
error that names both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import gmlearn as gm

PROJECT = "gmlearn"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def gmlearn_potentials() -> list[type[gm.Block]]:
    """Return classes derived from ``gmlearn.Block``: energy terms that ``crf.add(name, ...)``
    can build.
    """


@hookspec
def gmlearn_slave_solvers() -> list[gm.SlaveSolver]:
    """Return ``gmlearn.SlaveSolver`` objects: exact batched minimisers for the blocks that they
    accept.
    """


@hookspec
def gmlearn_decompositions() -> list[gm.Decomposition]:
    """Return ``gmlearn.Decomposition`` objects: ways to cover an energy by slave groups."""


@hookspec
def gmlearn_losses() -> list[type[gm.Loss]]:
    """Return classes derived from ``gmlearn.Loss``: Delta(x, truth) as blocks whose sign is
    already turned.
    """


@hookspec
def gmlearn_solvers() -> list[gm.MapSolver]:
    """Return ``gmlearn.MapSolver`` objects: what ``gm.solve(crf, solver=name)`` can run."""


@hookspec
def gmlearn_marginal_methods() -> list[gm.MarginalMethod]:
    """Return ``gmlearn.MarginalMethod`` objects: what ``gm.marginals(crf, method=name)`` can
    run.
    """


@hookspec
def gmlearn_optimizers() -> list[type[gm.Optimizer]]:
    """Return ``gmlearn.Optimizer`` classes: what minimises the training objective,
    ``gm.train(optimizer=name)``.
    """


@hookspec
def gmlearn_trainers() -> list[gm.Trainer]:
    """Return ``gmlearn.Trainer`` objects: whole training methods, ``gm.train(problem,
    method=name)``.
    """


@hookspec
def gmlearn_formats() -> list[gm.FileFormat]:
    """Return ``gmlearn.FileFormat`` objects: what ``gm.read`` and ``gm.write`` understand, by
    file extension.
    """


@hookspec
def gmlearn_experiments() -> list[gm.Experiment]:
    """Return ``gmlearn.Experiment`` objects: what ``gmlearn run NAME`` can repeat."""
