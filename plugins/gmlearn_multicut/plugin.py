"""What gmlearn_multicut registers."""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_potentials() -> list[type]:
    from gmlearn_multicut.potentials import SignedGraph

    return [SignedGraph]


@gm.hookimpl
def gmlearn_losses() -> list[type]:
    from gmlearn_multicut.losses import PairLoss

    return [PairLoss]


@gm.hookimpl
def gmlearn_decompositions() -> list[gm.Decomposition]:
    from gmlearn_multicut.slaves import CycleDecomposition

    return [CycleDecomposition()]


@gm.hookimpl
def gmlearn_solvers() -> list[gm.MapSolver]:
    from gmlearn_multicut.solver import GreedyContraction, KernighanLin, MulticutSolver

    return [MulticutSolver(), KernighanLin(), GreedyContraction()]
