"""``gmlearn run decompositions``: the hierarchy of relaxations on frustrated grids, for MAP and
for learning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import gmlearn as gm
from gmlearn_vision.synthetic import blocky

MAP_SIDE, QUICK_SIDE, LEARN_SIDE = 13, 7, 9


def black_cells(side: int) -> list[tuple[int, int]]:
    """Corners (y, x) of the 2 x 2 cells of one colour of the checkerboard: no two share an edge,
    so all their cycles are closed.
    """
    return [(y, x) for y in range(side - 1) for x in range(side - 1) if (y + x) % 2 == 0]


def pixels(side: int, cells: list[tuple[int, int]]) -> np.ndarray:
    """The variables of a union of cells."""
    return np.unique([(y + a) * side + x + b for y, x in cells for a in (0, 1) for b in (0, 1)])


def cells(side: int) -> gm.Subgraphs:
    """A slave for each black cell, so that every edge is in one slave."""
    return gm.Subgraphs([pixels(side, [cell]) for cell in black_cells(side)])


def crosses(side: int) -> gm.Subgraphs:
    """The black cells in groups of up to four around a white one, whose cycle they close too:
    unions of the slaves of `cells`.

    Centres are the white cells (y, x) with y even and y + x = 1 modulo 4: every black cell touches
    one of them.
    """
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for y, x in black_cells(side):
        around = [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
        groups.setdefault(next(c for c in around if c[0] % 2 == 0 and sum(c) % 4 == 1), []).append(
            (y, x)
        )
    return gm.Subgraphs([pixels(side, members) for members in groups.values()])


def hierarchy(side: int) -> dict[str, gm.Decomposition | str]:
    """Decompositions of a 4-connected grid from small slaves to large ones."""
    return {
        "per clique": "per-clique",
        "rows and columns": "rows-columns",
        "2 x 2 cells": cells(side),
        "crosses of cells": crosses(side),
    }


def frustrated_grid(rng: np.random.Generator, side: int) -> gm.CRF:
    """A binary grid with couplings of both signs: no labelling satisfies all edges of most
    cells.
    """
    edges = gm.grid_edges(side, side)
    crf = gm.CRF(side * side, 2).add_unary(rng.normal(scale=0.3, size=(side * side, 2)))
    coupling = rng.choice([-1.0, 1.0], size=len(edges))
    crf.add(gm.Table(edges, coupling[:, None, None] * (1.0 - np.eye(2))))
    return crf


def run_decompositions(run: gm.Run) -> None:
    """Bounds on a frustrated grid, then training with the same slaves."""
    bounds, optimum = _bounds(run)
    learnt = _learn(run)
    rows = [
        [name, bounds[name].bound[-1], bounds[name].bound[-1] - optimum, *learnt[name]]
        for name in bounds
    ]
    run.table(
        f"The hierarchy (optimum of the MAP problem {optimum:.4f})",
        ["slaves", "bound", "bound - optimum", "objective", "test error"],
        rows,
    )
    for name, bound, _, objective, error in rows:
        run.value(name, {"bound": bound, "objective": objective, "test error": error})
    run.value("optimum", optimum)
    _plot(run, bounds, optimum, rows)


def _bounds(run: gm.Run) -> tuple[dict, float]:
    """The history of the dual bound for every decomposition, and the optimum."""
    side = QUICK_SIDE if run.quick else MAP_SIDE
    crf = frustrated_grid(np.random.default_rng(run.seed), side)
    optimum = gm.solve(crf, time_limit=30.0)
    if optimum.gap > 1e-6:
        run.note(f"The optimum is not proved: gap {optimum.gap:.3g}.")
    rounds = 60 if run.quick else 300
    found = {}
    for name, decomposition in run.progress(list(hierarchy(side).items()), desc="bounds"):
        found[name] = gm.solve(
            crf, solver="bcfw", decomposition=decomposition, max_iter=rounds
        ).history
    return found, optimum.energy


def _grids(rng: np.random.Generator, n: int, side: int) -> list[gm.Sample]:
    """Checkerboard-like textures: blocks whose sign is flipped along random lines, so the learnt
    couplings frustrate cells.

    The coupling of an edge is w . z with z = (a noisy sign of agreement, 1).
    """
    edges = gm.grid_edges(side, side)
    samples = []
    for _ in range(n):
        truth = blocky(rng, side, side, 2, 3) ^ (rng.random((side, side)) < 0.1)
        flat = truth.ravel()
        agree = np.where(flat[edges[:, 0]] == flat[edges[:, 1]], 1.0, -1.0)
        crf = gm.CRF(side * side, 2)
        crf.add(
            gm.Unary((flat + 0.9 * rng.normal(size=side * side))[:, None] - 0.5, weight="unary")
        )
        crf.add(
            gm.Potts(
                edges,
                features=np.stack(
                    [agree + 1.2 * rng.normal(size=len(edges)), np.ones(len(edges))], axis=1
                ),
                weight="edge",
            )
        )
        samples.append(gm.Sample(crf, flat, weight=1.0 / (n * side * side)))
    return samples


def _learn(run: gm.Run) -> dict[str, tuple[float, float]]:
    """Training objective and test error with each decomposition; MAP by the automatic solver for
    all.
    """
    side, n = (QUICK_SIDE, 4) if run.quick else (LEARN_SIDE, 12)
    rng = np.random.default_rng([run.seed, 1])
    train, test = _grids(rng, n, side), _grids(rng, 2 * n, side)
    result = {}
    for name, decomposition in run.progress(list(hierarchy(side).items()), desc="training"):
        model = gm.train(
            train,
            decomposition=decomposition,
            regularizer=gm.L2(1e-3),
            max_iter=31 if run.quick else 101,
            seed=run.seed,
            tol=1e-6,
        )
        result[name] = (model.objective, _test_error(model, test))
    return result


def _test_error(model: gm.TrainedModel, test: Sequence[gm.Sample]) -> float:
    return float(np.mean([np.mean(model.predict(s.crf).labels != s.labels) for s in test]))


def _plot(run: gm.Run, bounds: dict, optimum: float, rows: list[list]) -> None:
    with gm.plot.styled() as plt:
        figure, (curves, bars) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(1.4, 1))
        for name, history in bounds.items():
            curves.plot(history.iteration, history.bound, label=name)
        curves.axhline(optimum, color="black", linewidth=0.8, linestyle="--", label="optimum")
        lowest = min(h.bound[-1] for h in bounds.values())
        curves.set(
            xlabel="rounds",
            ylabel="lower bound",
            title="larger slaves, tighter bounds",
            xscale="log",
            ylim=(
                lowest - 0.6 * (optimum - lowest) - 1e-3,
                optimum + 0.1 * (optimum - lowest) + 1e-3,
            ),
        )
        curves.legend(loc="center right", bbox_to_anchor=(1.0, 0.58), fontsize=8)
        position = np.arange(len(rows))
        bars.bar(
            position - 0.2,
            [r[3] for r in rows],
            width=0.4,
            color=gm.plot.PALETTE[0],
            label="training objective",
        )
        bars.bar(
            position + 0.2,
            [r[4] for r in rows],
            width=0.4,
            color=gm.plot.PALETTE[1],
            label="test error",
        )
        bars.set_xticks(position, ["\n".join(r[0].rsplit(" ", 1)) for r in rows])
        bars.set_title("learning with the same slaves")
        bars.legend(loc="upper right", ncols=2)
        bars.set_ylim(0, 1.2 * max(r[3] for r in rows))
    run.figure(
        "decompositions.png",
        figure,
        "The hierarchy of relaxations: bound, training objective and test error.",
    )
