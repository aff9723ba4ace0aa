"""Tabu search (Glover 1989): good labellings of frustrated and constrained models, where rounding a
relaxation fails.

Every step makes the best move of one variable even if the energy rises, and forbids the label that
was given up for some steps; a move that beats the best labelling known is always allowed.
"""

from __future__ import annotations

import numpy as np

from gmlearn.model.factors import FactorGraph
from gmlearn.solvers.moves import Moves
from gmlearn.solvers.polish import unary_labels
from gmlearn.solvers.problem import MapSolver, Problem

#: moves and cliques that are looked at without tables, if no limit is given (some seconds)
MAX_SPENT = 5_000_000
#: table entries that are worth as much time as a look at one label
PER_LABEL = 0.6


def tabu_search(problem: Problem, graph: FactorGraph, moves: int) -> int:
    """Improve the incumbent by about `moves` single-variable moves; returns how many were made.

    Within the search costs are in units of their scale, and a broken hard constraint costs a finite
    penalty; what is offered is judged by the model itself.
    """
    from gmlearn.solvers._tabu_numba import Search, conditionals, energy_of, tabu_steps

    unit = problem.scale or 1.0
    finite = graph.values[np.isfinite(graph.values)] / unit
    penalty = 10.0 * (1.0 + (np.ptp(finite) if finite.size else 0.0))
    g = graph.tables(unit, penalty)
    x = (problem.labels if problem.labels is not None else unary_labels(problem)).copy()
    cost = np.empty(len(g.unary))
    conditionals(x, g, cost)
    energy = best = energy_of(x, g)
    tabu = np.zeros(len(g.unary), np.int64)
    random = np.array([0x9E3779B97F4A7C15 ^ (problem.options.seed + 1)], np.uint64)
    search = Search(x, x.copy(), cost, tabu, np.isfinite(graph.unary), random)
    clock = 0
    patience = 2000 + 20 * graph.n_vars
    # a few milliseconds, so that limits are honoured
    chunk = max(1, min(moves, int(3e6 / max(1, len(g.unary)))))
    last = np.inf
    while clock < moves and problem.time_left > 0 and not problem.closed:
        problem.count(chunk * PER_LABEL * len(g.unary))
        energy, best, clock = tabu_steps(search, g, energy, best, clock, chunk, patience)
        if best < last:
            last = best
            problem.offer(search.best_x, "tabu search")
    return int(clock)


def tabu_search_by_energies(problem: Problem, steps: int) -> int:
    """Tabu search by the energies of changed cliques, for blocks without tables; returns how many
    moves were made.

    A step makes the best move of one variable, or the best exchange of two labels, that does not
    bring back a label given up lately, or that beats the best known. After a while without gain
    some labels are shuffled.
    """
    polisher, costs = problem.polisher, problem.polisher.costs
    rng = np.random.default_rng(problem.options.seed)
    x = np.array(problem.labels, np.int64)
    offsets = problem.crf.offsets
    n, share = len(x), max(1, 20_000 * len(x) // int(offsets[-1]))
    until = np.zeros(offsets[-1], np.int64)
    energy, best, idle = 0.0, 0.0, 0
    last = costs.spent + MAX_SPENT
    for step in range(steps):
        if problem.stop() or (costs.spent > last and problem.time_left == np.inf):
            return step
        moves = costs.singles(rng.permutation(n)[:share], x).joined_with(costs.swaps(x))
        if len(moves) == 0:
            return step
        change = costs.changes(moves, x)
        back = until[offsets[moves.variable] + moves.label]
        tabu = np.minimum.reduceat(back, moves.ptr[:-1]) > step
        change[tabu & (energy + change >= best - costs.tol)] = np.inf
        chosen = moves.take(rng.choice(np.flatnonzero(change <= change.min() + costs.tol), 1))
        if idle > 20 + n:
            region = rng.permutation(n)[: rng.integers(2, n + 1)]
            chosen = Moves.of(region[None], polisher.shaken(x, region, rng)[None])
            idle = 0
        energy += costs.changes(chosen, x)[0]
        until[offsets[chosen.variable] + x[chosen.variable]] = step + 5 + rng.integers(0, 5 + n)
        x[chosen.variable] = chosen.label
        idle += 1
        if energy < best - costs.tol:
            best, idle = energy, 0
            problem.offer(x, "tabu search")
    return steps


class TabuSearch(MapSolver):
    """Tabu search with kicks from the best labelling found. No bound of its own."""

    name = "tabu"
    bounds = False

    def run(self, problem: Problem) -> None:
        polisher = problem.polisher
        graph, most = polisher.graph, problem.options.max_iter
        if problem.labels is None:
            problem.offer(unary_labels(problem), "unary optimum")
        if polisher.costs.rest:
            polisher(problem, np.asarray(problem.labels), "unary optimum")
            steps = 2000 if most is None else most
            problem.iterations = tabu_search_by_energies(problem, steps)
            return
        # a move looks at all labels, and brings those of the cliques around up to date
        around = np.bincount(graph.owner, graph.n_states[graph.scope], graph.n_factors)
        widest = np.bincount(graph.scope, around[graph.owner], graph.n_vars).max()
        few = int(min(1e5, 2e9 / (len(graph.unary) + widest)))
        problem.iterations = tabu_search(problem, graph, few if most is None else most)
