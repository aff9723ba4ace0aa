"""gmlearn_multicut beside a published implementation of the same heuristics.

``python tests/benchmarks/multicut.py``; needs bioimage-cpp (greedy additive contraction and
Kernighan-Lin in C++). Energies are relative to the best known; times are CPU seconds of one run.
"""

from __future__ import annotations

import time

import numpy as np
from gmlearn_multicut import EdgeGraph, greedy_contraction, kernighan_lin
from gmlearn_multicut.estimator import Multicut


def planted(seed, n, degree, noise, n_clusters):
    """A random graph whose signs are those of a partition, with noise."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_clusters, n)
    edges = rng.integers(0, n, (n * degree // 2, 2))
    same = truth[edges[:, 0]] == truth[edges[:, 1]]
    return EdgeGraph.of(n, edges, np.where(same, 1.0, -1.0) + noise * rng.normal(size=len(edges)))


def image(seed, side, noise):
    """A grid with regions of constant grey and noise: the cost of a cut is .5 minus contrast; also
    between pixels two and four steps apart.
    """
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0, side, (12, 2))
    place = np.stack(np.meshgrid(*[np.arange(side)] * 2, indexing="ij"), -1).reshape(-1, 2)
    region = ((place[:, None] - centre) ** 2).sum(-1).argmin(axis=1)
    grey = (rng.random(12)[region] + noise * rng.normal(size=side * side)).reshape(side, side)
    index = np.arange(side * side).reshape(side, side)
    edges, cost = [], []
    for step in (1, 2, 4):
        for a, b in (
            (np.s_[step:], np.s_[:-step]),
            (np.s_[:, step:], np.s_[:, :-step]),
        ):
            edges.append(np.stack([index[a].ravel(), index[b].ravel()], axis=1))
            cost.append(0.15 - np.abs(grey[a] - grey[b]).ravel())
    return EdgeGraph.of(side * side, np.concatenate(edges), np.concatenate(cost))


def cpu(function):
    start = time.process_time()
    found = function()
    return found, time.process_time() - start


def published(graph, name):
    """(energy, seconds) of bioimage-cpp's solver; a run of Kernighan-Lin starts from contraction,
    as ours does.
    """
    from bioimage_cpp.graph import UndirectedGraph, multicut

    own = UndirectedGraph.from_edges(graph.n_nodes, graph.edges.astype(np.uint64))
    objective = multicut.MulticutObjective(own, graph.cost)
    solver = multicut.GreedyAdditiveMulticut()
    if name == "kernighan-lin":
        solver = multicut.ChainedMulticutSolvers([solver, multicut.KernighanLinMulticut()])
    labels, seconds = cpu(lambda: solver.optimize(objective))
    return graph.energy(np.asarray(labels).astype(np.int64)), seconds


def ours(graph, name):
    """(energy, seconds)."""

    def solve():
        labels = greedy_contraction(graph)
        return kernighan_lin(graph, labels) if name == "kernighan-lin" else labels

    labels, seconds = cpu(solve)
    return graph.energy(labels), seconds


def main():
    ours(planted(0, 30, 4, 0.5, 3), "kernighan-lin")  # compile
    instances = {
        "planted, 300 nodes": planted(1, 300, 20, 1.5, 6),
        "planted, 3000 nodes": planted(2, 3000, 20, 1.5, 10),
        "planted, 30000 nodes": planted(3, 30_000, 10, 1.0, 30),
        "image 30 x 30": image(4, 30, 0.1),
        "image 100 x 100": image(5, 100, 0.1),
    }
    for name, graph in instances.items():
        found = {}
        for method in ("gaec", "kernighan-lin"):
            found[f"ours {method}"] = ours(graph, method)
            found[f"bioimage-cpp {method}"] = published(graph, method)
        bound = None
        if len(graph.edges) <= 6000:
            solver = Multicut(time_limit=60.0)
            _, seconds = cpu(lambda s=solver, g=graph: s.fit(g.cost, edges=g.edges))
            found["ours, cycle cuts (HiGHS)"] = (solver.energy_, seconds)
            bound = solver.lower_bound_
        best = min(energy for energy, _ in found.values())
        print(f"{name}, {len(graph.edges)} edges, best energy {best:.3f}, bound {bound}")
        for method, (energy, seconds) in found.items():
            print(f"  {method}: {(energy - best) / abs(best):.5f} above, {seconds:.3f} s")


if __name__ == "__main__":
    main()
