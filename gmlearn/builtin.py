"""The built-in parts, registered through the same hooks as any plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gmlearn.registry import hookimpl

if TYPE_CHECKING:
    import gmlearn as gm


@hookimpl
def gmlearn_potentials() -> list[type[gm.Block]]:
    from gmlearn import potentials as p

    return [p.Unary, p.Potts, p.Truncated, p.Difference, p.LearntTable, p.FeatureTable, p.Table]


@hookimpl
def gmlearn_slave_solvers() -> list[gm.SlaveSolver]:
    from gmlearn import slaves as s

    return [s.PottsEdge(), s.PairwiseEdge(), s.TableClique(), s.Enumeration()]


@hookimpl
def gmlearn_decompositions() -> list[gm.Decomposition]:
    from gmlearn import decompositions as d

    return [
        d.Auto(),
        d.Reweighted(),
        d.Sparse(),
        d.PerClique(),
        d.Chains(),
        d.RowsColumns(),
        d.SpanningTrees(),
        d.SpanningHypertrees(),
        d.Subgraphs(),
        d.Components(),
        d.Strips(),
    ]


@hookimpl
def gmlearn_solvers() -> list[gm.MapSolver]:
    from gmlearn.solvers.auto import Auto
    from gmlearn.solvers.cuts.binary import MaxFlow
    from gmlearn.solvers.cuts.expansion import AlphaExpansion
    from gmlearn.solvers.dual import BCFW, MPLP, DualSubgradient
    from gmlearn.solvers.elimination import BruteForce, VariableElimination
    from gmlearn.solvers.exact import Exact
    from gmlearn.solvers.external import PyMaxflow, Toulbar2
    from gmlearn.solvers.linear import LinearProgram
    from gmlearn.solvers.polish import ICM, ChainICM
    from gmlearn.solvers.srmp import SRMP
    from gmlearn.solvers.tabu import TabuSearch
    from gmlearn.solvers.tree import Tree
    from gmlearn.solvers.trws import TRWS

    return [
        Auto(),
        DualSubgradient(),
        TRWS(),
        SRMP(),
        MPLP(),
        BCFW(),
        LinearProgram(),
        Exact(),
        BruteForce(),
        Tree(),
        VariableElimination(),
        ICM(),
        ChainICM(),
        TabuSearch(),
        MaxFlow(),
        PyMaxflow(),
        AlphaExpansion(),
        Toulbar2(),
    ]


@hookimpl
def gmlearn_marginal_methods() -> list[gm.MarginalMethod]:
    from gmlearn import probabilities as p

    return [
        p.AutoMarginals(),
        p.TreeMarginals(),
        p.EliminationMarginals(),
        p.BruteForceMarginals(),
        p.TRW(),
        p.MeanField(),
        p.LoopyBP(),
    ]


@hookimpl
def gmlearn_formats() -> list[gm.FileFormat]:
    from gmlearn import io

    return [io.Uai(), io.Npz()]


@hookimpl
def gmlearn_losses() -> list[type[gm.Loss]]:
    from gmlearn import losses as l

    return [l.Hamming, l.WeightedHamming, l.LabelDistance, l.NoLoss]


@hookimpl
def gmlearn_optimizers() -> list[type[gm.Optimizer]]:
    from gmlearn.learn.bcfw import BlockFrankWolfe
    from gmlearn.learn.cutting_plane import CuttingPlane
    from gmlearn.learn.first_order import Incremental, Stochastic, Subgradient
    from gmlearn.learn.soft import SoftLBFGS

    return [BlockFrankWolfe, Subgradient, Stochastic, Incremental, CuttingPlane, SoftLBFGS]


@hookimpl
def gmlearn_trainers() -> list[gm.Trainer]:
    from gmlearn.learn.trainer import DualDecomposition

    return [DualDecomposition()]
