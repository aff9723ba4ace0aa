"""The built-in parts, registered through the same hooks as any plugin."""

from __future__ import annotations

from gmlearn.registry import hookimpl


@hookimpl
def gmlearn_potentials():
    from gmlearn import potentials as p

    return [p.Unary, p.Potts, p.Truncated, p.Difference, p.LearntTable, p.Table]


@hookimpl
def gmlearn_slave_solvers():
    from gmlearn import slaves as s

    return [s.PottsEdge(), s.PairwiseEdge(), s.TableClique(), s.Enumeration()]


@hookimpl
def gmlearn_decompositions():
    from gmlearn import decompose as d

    return [d.Auto(), d.PerClique(), d.Chains(), d.RowsColumns(), d.SpanningTrees(), d.Subgraphs()]


@hookimpl
def gmlearn_solvers():
    from gmlearn.solve.auto import Auto
    from gmlearn.solve.dual import BCFW, MPLP, DualSubgradient
    from gmlearn.solve.elimination import BruteForce, VariableElimination
    from gmlearn.solve.exact import Exact
    from gmlearn.solve.external import AlphaExpansion, MaxFlow, Toulbar2
    from gmlearn.solve.linear import LinearProgram
    from gmlearn.solve.polish import ICM, ChainICM
    from gmlearn.solve.tree import Tree
    from gmlearn.solve.trws import TRWS

    return [Auto(), DualSubgradient(), TRWS(), MPLP(), BCFW(), LinearProgram(), Exact(), BruteForce(), Tree(),
            VariableElimination(), ICM(), ChainICM(), MaxFlow(), AlphaExpansion(), Toulbar2()]
