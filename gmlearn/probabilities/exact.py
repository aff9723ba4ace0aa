"""Exact methods: enumeration, forests, and variable elimination.

p(x) = exp(-E(x) / T) / Z. Sums of exp(-E / T) are taken in the order that dynamic programming, or
elimination, would take minima in; a second pass the other way gives the marginals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gmlearn.decompositions import decompose
from gmlearn.decompositions.forests import is_forest
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.potentials.ragged_block import RaggedBlock
from gmlearn.probabilities.junction import JunctionTree
from gmlearn.probabilities.method import (
    MarginalMethod,
    MarginalProblem,
    MethodRefusal,
    lacks_tables,
)
from gmlearn.probabilities.result import Marginals
from gmlearn.solvers.elimination import BruteForce, all_energies

#: gigabytes that elimination may ask for unless told otherwise, and at all: positions in its
#: tables are numbers of 32 bits
MAX_MEMORY, MOST_MEMORY = 4.0, 16.0


class BruteForceMarginals(MarginalMethod):
    """Every labelling: the specification of all other methods."""

    name = "brute-force"

    def refuses(self, crf: CRF) -> str | None:
        return BruteForce().refuses(crf)

    def run(self, problem: MarginalProblem) -> Marginals:
        crf = problem.crf
        energy = np.concatenate([e for _, e in all_energies(crf, problem.w)])
        low = float(energy.min(initial=np.inf))
        if low == np.inf:
            return problem.exact(self.name, -np.inf, np.zeros(crf.n_coords))
        p = np.exp((low - energy) / problem.temperature)
        log_partition = float(np.log(p.sum())) - (low + crf.constant) / problem.temperature
        p = (p / p.sum()).reshape(tuple(crf.n_states))

        def marginal(scope: np.ndarray) -> np.ndarray:
            order = np.argsort(scope)
            others = tuple(v for v in range(crf.n_vars) if v not in set(scope.tolist()))
            return p.sum(axis=others).transpose(np.argsort(order))

        flat = np.concatenate([np.zeros(0), *(marginal(np.array([v])) for v in range(crf.n_vars))])

        def cliques(number: int) -> Any:
            block = crf.blocks[number]
            scopes = np.split(block.members, block.indptr[1:-1])
            return stacked(block, [marginal(s) for s in scopes])

        return problem.exact(self.name, log_partition, flat, cliques)


class TreeMarginals(MarginalMethod):
    """Forward and backward messages on a pairwise forest."""

    name = "tree"

    def refuses(self, crf: CRF) -> str | None:
        return None if is_forest(crf) else "the model is not a pairwise forest"

    def run(self, problem: MarginalProblem) -> Marginals:
        slaves = decompose(problem.crf, "trees", "log_partition")
        dual = Dual(slaves, problem.w)
        theta = dual.share
        flat, total = np.zeros(problem.crf.n_coords), dual.constant
        for group, where, prepared in zip(slaves.groups, slaves.slices, dual.prepared):
            found = group.log_partition(theta[where], prepared, problem.temperature)  # type: ignore[attr-defined]
            total += float(found.value.sum())
            flat[group.coords] = found.marginals
        log_partition = -total / problem.temperature
        cliques = by_elimination(problem)
        return problem.exact(self.name, log_partition, flat, cliques, iterations=1)


class EliminationMarginals(MarginalMethod):
    """Variable elimination, forward and backward: exact, exponential in the induced width only.

    settings : max_memory, in gigabytes, at most 16; more is refused before it is asked for.
    """

    name = "elimination"
    settings = ("max_memory",)
    limits = {"max_memory": {"low": 0}}

    def refuses(self, crf: CRF) -> str | None:
        return lacks_tables(crf)

    def run(self, problem: MarginalProblem) -> Marginals:
        tree = JunctionTree(problem.graph, problem.temperature, problem.seed)
        most = min(float(problem.settings.get("max_memory", MAX_MEMORY)), MOST_MEMORY)
        if tree.possible and tree.bytes > most * 2**30:
            order = tree.order
            raise MethodRefusal(
                f"method 'elimination': {problem.crf} has an induced width of {order.width}; its "
                f"largest table has {order.largest:.3g} entries, and all messages take "
                f"{tree.bytes / 2**30:.3g} GB (limit {most:g} GB); use 'trw' or 'auto'"
            )
        return run_elimination(problem, tree)


def run_elimination(problem: MarginalProblem, tree: JunctionTree, reason: str = "") -> Marginals:
    """Both passes of a planned elimination."""
    log_partition = tree.log_partition
    flat: np.ndarray = np.zeros(problem.crf.n_coords)
    if log_partition == -np.inf:
        return problem.exact("elimination", log_partition, flat, reason=reason)
    flat, joint = tree.marginals()
    cliques = block_tables(problem.crf, lambda f: tree.table(f, joint))
    log_partition += problem.constant
    return problem.exact("elimination", log_partition, flat, cliques, iterations=1, reason=reason)


def by_elimination(problem: MarginalProblem) -> Callable[[int], Any]:
    """Clique marginals by elimination, computed when they are first asked for."""
    kept: list[Callable[[int], Any]] = []

    def cliques(number: int) -> Any:
        if not kept:
            tree = JunctionTree(problem.graph, problem.temperature, problem.seed)
            found = run_elimination(problem, tree).cliques
            assert found is not None
            kept.append(found)
        return kept[0](number)

    return cliques


def block_tables(crf: CRF, table: Callable[[int], np.ndarray]) -> Callable[[int], Any]:
    """Number of a block -> its clique marginals, from those of the tables of a `FactorGraph`."""
    first: dict[int, int] = {}
    at = 0
    for i, block in enumerate(crf.blocks):
        if block.arity > 1 or any(block is b for b in crf.clique_blocks):
            first[i] = at
            at += len(block)

    def cliques(number: int) -> Any:
        block = crf.blocks[number]
        if isinstance(block, RaggedBlock):
            # a factor graph has the cliques of a ragged block ordered by size
            order = np.argsort(block.sizes, kind="stable")
            rank = np.argsort(order, kind="stable")
        else:
            rank = np.arange(len(block))
        return stacked(block, [table(first[number] + int(m)) for m in rank])

    return cliques


def stacked(block: Block, tables: list[np.ndarray]) -> Any:
    """Clique marginals as (M, L, ..., L), padded by 0; of a ragged block as they are."""
    if isinstance(block, RaggedBlock):
        return tables
    out = np.zeros((len(tables),) + (block.max_states,) * block.arity)
    for m, p in enumerate(tables):
        index: tuple[Any, ...] = (m, *(slice(n) for n in p.shape))
        out[index] = p
    return out
