"""Speed of the high-order slaves as ratios: against reading the costs once, against explicit
tables, and at large sizes.

Run: python tests/benchmarks/highorder.py
"""

import time

import gmlearn_highorder as h
import numpy as np
from gmlearn_highorder import plugin

import gmlearn as gm

if not any(entry.name == "pn_potts" for entry in gm.plugins()):
    gm.register(plugin, "highorder")


def seconds(function, repeat=7):
    """Best time of a few calls, after one to compile."""
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def workload(rng, side=50, labels=5, reward=0.0):
    """All 3x3 cliques of a grid with learnt betas: one training sample."""
    cliques = gm.grid_cliques(side, side, 3, 3)
    features = rng.normal(size=(len(cliques), labels, 3))
    block = h.PnPotts(cliques, beta_max=reward, features=features, weight="pn").bind(
        np.full(side * side, labels)
    )
    return block, {"pn": rng.normal(size=(labels, 3))}


def pn_workload(rng):
    print(
        "Pn-Potts, 50x50 grid, all 3x3 cliques, 5 labels (times of reading theta once; ns per "
        "clique)"
    )
    for name, reward in (("mixed", 0.0), ("half constant", 5.5), ("constant", 100.0)):
        one_pn_workload(name, *workload(rng, reward=reward), rng.normal(size=(48 * 48 * 9, 5)))


def one_pn_workload(name, block, w, theta):
    solver = h.PnPottsSlave()
    prepared = solver.prepare(block, w)
    read = seconds(theta.sum)
    labels = solver.minimise(block, theta, prepared)[0]
    constant = block.selected(labels)[1].mean()
    for what, function in (
        ("minimise", lambda: solver.minimise(block, theta, prepared)),
        ("prepare w", lambda: solver.prepare(block, w)),
        ("features", lambda: block.features(labels)),
        ("min-marginals", lambda: solver.min_marginals(block, theta, prepared)),
        ("log-partition", lambda: solver.log_partition(block, theta, prepared, 1.0)),
    ):
        t = seconds(function)
        print(
            f"  {name:14s} ({constant:4.0%} constant) {what:14s} {t / read:7.1f} x read   "
            f"{t / len(block) * 1e9:7.0f} ns"
        )


def against_tables(rng):
    print(
        "Against the compiled table slave on the same cliques (k = 5, L = 4, 400 cliques): table "
        "time / our time"
    )
    cliques = np.stack([rng.choice(60, 5, replace=False) for _ in range(400)])
    patterns = np.unique(rng.integers(0, 4, size=(8, 5)), axis=0)
    blocks = [
        h.PnPotts(cliques, rng.normal(size=(400, 4))),
        h.RobustPn(cliques, 2, rng.normal(size=(400, 4))),
        h.Pattern(cliques, patterns, rng.normal(size=(400, len(patterns)))),
        h.Cardinality(cliques, rng.normal(size=(400, 6))),
        h.ExactlyOne(cliques),
        h.AtMost(cliques, 2),
        h.LabelCost(cliques, rng.random(4)),
        h.LabelCost(cliques, rng.normal(size=4)),
        h.Implication(cliques[:, :2]),
    ]
    for block in blocks:
        one_against_tables(block.bind(np.full(60, 4)), rng.normal(size=400 * 5 * 4))


def one_against_tables(block, theta):
    solvers = {e.name: e.obj for e in gm.plugins() if e.kind == "slave solver"}
    chosen = min(
        (s for s in solvers.values() if s.refuses(block) is None), key=lambda s: s.cost(block)
    )
    times = []
    for solver in (chosen, solvers["table"]):
        group = gm.CliqueGroup(block, solver, np.arange(61) * 4)
        prepared = group.prepare({})
        times.append(seconds(lambda g=group, p=prepared: g.solve(theta[: len(g.coords)], p)))
    print(f"  {block.name:12s} auto: {chosen.name:12s} {times[1] / times[0]:8.1f} x")


def large_cliques(rng):
    print("Cliques of 300 variables, 8 labels, 100 of them (times of reading theta once)")
    cliques = np.arange(30_000).reshape(100, 300)
    blocks = [
        h.PnPotts(cliques, rng.normal(size=(100, 8)) * 30),
        h.RobustPn(cliques, 60, rng.normal(size=(100, 8)) * 30),
        h.Cardinality(cliques, rng.normal(size=(100, 301)) * 3),
        h.ExactlyOne(cliques),
        h.AtMost(cliques, 30),
        h.LabelCost(cliques, rng.random(8) * 30),
    ]
    theta = rng.normal(size=(30_000, 8))
    read = seconds(theta.sum)
    ours = [e.obj for e in gm.plugins() if e.kind == "slave solver" and e.owner != "core"]
    for block in blocks:
        block = block.bind(np.full(30_000, 8))
        solver = next(s for s in ours if s.refuses(block) is None)
        prepared = solver.prepare(block, {})
        t = seconds(lambda s=solver, b=block, p=prepared: s.minimise(b, theta, p), 3)
        marginals = seconds(lambda s=solver, b=block, p=prepared: s.min_marginals(b, theta, p), 3)
        print(
            f"  {block.name:12s} minimise {t / read:8.1f} x read ({t / 100 * 1e6:7.1f} us per "
            f"clique)   "
            f"min-marginals {marginals / read:8.1f} x"
        )


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    pn_workload(generator)
    against_tables(generator)
    large_cliques(generator)
