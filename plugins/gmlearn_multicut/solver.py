"""MAP solvers of signed graphs: greedy contraction, Kernighan-Lin, and cycle cuts with a proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

import gmlearn as gm
from gmlearn_multicut.graph import EdgeGraph, model_graph
from gmlearn_multicut.potentials import small_models
from gmlearn_multicut.primal import at_most, greedy_contraction, kernighan_lin
from gmlearn_multicut.relaxation import CycleRelaxation, packing_bound
from gmlearn_multicut.slaves import is_multicut, why_not_multicut

METHODS = ("multicut", "kernighan-lin", "gaec")
#: edges up to which the LP is solved, and integers are asked for
_MOST_EDGES, _MOST_INTEGERS = 30_000, 300
#: rounds of cuts, and nodes of branch and bound in one of them, at most
_MOST_ROUNDS, _MOST_NODES = 100, 2_000


class Search(Protocol):
    """What a search reports to: a problem of ``gm.solve``, or `Incumbent`."""

    def offer(self, labels: np.ndarray, source: str) -> bool: ...

    def raise_bound(self, bound: float) -> bool: ...

    def stop(self) -> bool: ...

    @property
    def time_left(self) -> float: ...


def search(graph: EdgeGraph, method: str, n_labels: int, report: Search) -> None:
    """Partitions and bounds of a signed graph, better and better, by one of `METHODS`."""
    labels = greedy_contraction(graph)
    report.offer(at_most(graph, labels, n_labels), "greedy contraction")
    report.raise_bound(packing_bound(graph))
    if method == "gaec" or report.stop():
        return
    labels = kernighan_lin(graph, at_most(graph, labels, n_labels), n_labels, report.stop)
    report.offer(labels, "Kernighan-Lin")
    if method == "multicut" and len(graph.edges) <= _MOST_EDGES:
        _cycle_cuts(graph, n_labels, report)


def _cycle_cuts(graph: EdgeGraph, n_labels: int, report: Search) -> None:
    """The LP with lazily added cycles, then integers; partitions rounded from every solution."""
    relaxation = CycleRelaxation(graph)
    whole = False
    for _ in range(_MOST_ROUNDS):
        if report.stop():
            return
        if relaxation.separate() == 0:
            cut = relaxation.y > 0.5
            if whole or np.abs(relaxation.y - cut).max(initial=0.0) <= 1e-6:
                # a point that violates nothing: the partition itself
                labels = graph.components(cut)
                report.offer(at_most(graph, labels, n_labels), "cycle cuts")
                return
            if len(graph.edges) > _MOST_INTEGERS:
                return
            whole = True
        if not relaxation.n_cuts:
            return
        limit = report.time_left
        seconds = max(limit, 0.01) if np.isfinite(limit) else None
        solved = relaxation.branch(_MOST_NODES, seconds) if whole else relaxation.solve(seconds)
        report.raise_bound(relaxation.bound)
        if not solved:
            return
        # contract first what the relaxation joins most surely
        joined = greedy_contraction(EdgeGraph(graph.n_nodes, graph.edges, 0.5 - relaxation.y))
        labels = at_most(graph, joined, n_labels)
        report.offer(kernighan_lin(graph, labels, n_labels, report.stop), "cycle cuts, rounded")


class _SignedGraphSolver(gm.MapSolver):
    """Shared by the three: what they refuse, and how they report."""

    def refuses(self, crf: gm.CRF) -> str | None:
        return why_not_multicut(crf)

    def run(self, problem: gm.Problem) -> None:
        graph = model_graph(problem.crf, problem.w)
        n_labels = int(problem.crf.n_states.max(initial=1))
        search(graph, self.name, n_labels, _Reported(problem))

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """Small models."""
        return small_models(rng)


class GreedyContraction(_SignedGraphSolver):
    """Greedy additive edge contraction, with the bound of packed cycles; O(M log M)."""

    name = "gaec"


class KernighanLin(_SignedGraphSolver):
    """Greedy contraction improved by Kernighan-Lin chains, with the bound of packed cycles."""

    name = "kernighan-lin"


class MulticutSolver(_SignedGraphSolver):
    """Kernighan-Lin, then the LP with cycle inequalities added where they are violated (HiGHS),
    then integers. ``gm.solve`` with ``solver="auto"`` leaves models of a signed graph to it.

    Exact up to 300 edges; beyond, the bound is that of the LP, and from 30 000 edges on that of
    packed cycles.
    """

    name = "multicut"

    def claims(self, crf: gm.CRF, w: Mapping[str, np.ndarray]) -> bool:
        return is_multicut(crf)


class _Reported:
    """A problem of ``gm.solve`` as a search sees it: bounds without the model's constant."""

    def __init__(self, problem: gm.Problem):
        self.problem = problem

    def offer(self, labels: np.ndarray, source: str) -> bool:
        return self.problem.offer(labels, source)

    def raise_bound(self, bound: float) -> bool:
        self.problem.iterations += 1
        raised = self.problem.raise_bound(bound + self.problem.crf.constant)
        self.problem.log()
        return raised

    def stop(self) -> bool:
        return self.problem.stop()

    @property
    def time_left(self) -> float:
        return self.problem.time_left


class Incumbent:
    """The best partition and bound of a graph too large for a model of all its labels."""

    def __init__(self, graph: EdgeGraph, time_left: Callable[[], float]):
        self.graph, self._time_left = graph, time_left
        self.labels = np.zeros(graph.n_nodes, np.int64)
        self.energy, self.bound = 0.0, -np.inf

    def offer(self, labels: np.ndarray, source: str) -> bool:
        energy = self.graph.energy(labels)
        better = energy < self.energy
        if better:
            self.labels, self.energy = labels, energy
        return better

    def raise_bound(self, bound: float) -> bool:
        raised = bound > self.bound
        self.bound = max(self.bound, bound)
        return raised

    def stop(self) -> bool:
        closed = self.energy - self.bound <= 1e-9 * max(1.0, abs(self.energy))
        return closed or self.time_left <= 0.0

    @property
    def time_left(self) -> float:
        return self._time_left()
