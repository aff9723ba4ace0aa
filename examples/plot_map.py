"""A model, its best labelling, and the bound that says how good it is.

A grid of three labels with random costs on its edges (frustrated cycles) and a Pn-Potts clique on
every 2 x 2 square. The factor graph on the left is a corner of it: circles are variables, squares
are cliques. On the right, how the lower bounds of three dual solvers approach the energy.

What to see: every run ends with a labelling and a bound. The bounds of the first two aim at the
value of the same linear program; subgradient steps get there late. Slaves that close cycles, here
windows of 3 x 3 that share only their borders, since each clique belongs to one slave, go beyond it
at a higher price per round.
"""

import sys

import numpy as np

import gmlearn as gm

SIDE, ROUNDS = (7, 20) if "--quick" in sys.argv else (13, 120)


def frustrated(height, width, rng):
    """Random costs for every pair of labels on every edge, and a reward for squares of one
    label.
    """
    crf = gm.CRF(height * width, 3).add_unary(rng.normal(size=(height * width, 3)))
    edges = gm.grid_edges(height, width)
    crf.add(gm.Pairwise(edges, table=rng.normal(size=(len(edges), 3, 3))))
    crf.add("pn_potts", cliques=gm.grid_cliques(height, width, 2, 2), beta=-0.3)
    return crf


crf = frustrated(SIDE, SIDE, np.random.default_rng(0))
grid = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
windows = [
    grid[y : y + 3, x : x + 3].ravel() for y in range(0, SIDE - 2, 2) for x in range(0, SIDE - 2, 2)
]
runs = {
    "dual-subgradient, chains": gm.solve(
        crf, solver="dual-subgradient", decomposition="chains", max_iter=ROUNDS
    ),
    "bcfw, chains": gm.solve(crf, solver="bcfw", decomposition="chains", max_iter=ROUNDS),
    "bcfw, 3 x 3 windows": gm.solve(
        crf, solver="bcfw", decomposition=gm.Subgraphs(windows), max_iter=ROUNDS
    ),
}
for name, answer in runs.items():
    print(
        f"{name:26s} energy {answer.energy:8.2f}   bound {answer.bound:8.2f}   gap "
        f"{answer.gap:6.2f}"
    )
best = min(runs.values(), key=lambda answer: answer.energy)

with gm.plot.styled() as plt:
    figure, panels = plt.subplots(1, 3, figsize=(14, 4), width_ratios=(1.1, 1, 1.2))
    gm.plot.plot_factor_graph(frustrated(3, 4, np.random.default_rng(0)), ax=panels[0])
    panels[0].set_title("a corner of the model")
    gm.plot.plot_labels(best.labels, (SIDE, SIDE), ax=panels[1], energy=best.energy)
    for i, (name, answer) in enumerate(runs.items()):
        rounds, known = np.array(answer.history.iteration), np.isfinite(answer.history.bound)
        panels[2].plot(
            rounds[known],
            np.array(answer.history.bound)[known],
            color=gm.plot.PALETTE[i],
            label=f"bound: {name}",
        )
    panels[2].axhline(
        best.energy, color="black", linestyle="--", label="energy of the best labelling"
    )
    panels[2].set(xlabel="round", title="lower bounds", ylim=(best.energy - 12, best.energy + 1.5))
    panels[2].legend(loc="lower right", fontsize=8, frameon=True)
    figure.savefig("plot_map.png", dpi=120, bbox_inches="tight")
