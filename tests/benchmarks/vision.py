"""Speed of the vision models as ratios: MAP of a tsukuba-sized Potts grid against gco-wrapper's
expansion, a pass of Pn-Potts training against reading its data once.

Run: python tests/benchmarks/vision.py [folder of the scene tsukuba]
"""

import sys
import time

import numpy as np
from gmlearn_highorder import PnPottsSlave
from gmlearn_vision import (
    birchfield_tomasi,
    grid_crf,
    load_middlebury,
    patch_samples,
    piecewise_constant,
)
from gmlearn_vision.pn_experiment import patch_crf

import gmlearn as gm

HEIGHT, WIDTH, LABELS, SMOOTH = 288, 384, 16, 0.4


def cpu_seconds(function):
    """The answer, and the processor time it took."""
    start = time.process_time()
    answer = function()
    return answer, time.process_time() - start


def tsukuba_costs(folder):
    """Matching costs of the real scene, or of a generated one of its size."""
    if folder is not None:
        pair = load_middlebury(folder)
        return birchfield_tomasi(pair.left, pair.right, LABELS, 20.0) / 20.0
    rng = np.random.default_rng(0)
    truth = piecewise_constant(rng, HEIGHT, WIDTH, LABELS, 40)
    texture = np.repeat(
        rng.integers(0, 256, (HEIGHT, (WIDTH + LABELS) // 3 + 1)), 3, axis=1
    ).astype(float)
    columns = np.arange(WIDTH) + LABELS
    images = np.stack([np.take_along_axis(texture, columns - truth, axis=1), texture[:, columns]])
    return birchfield_tomasi(*(images + 6 * rng.normal(size=images.shape)), LABELS, 20.0) / 20.0


def map_against_expansion(folder):
    import gco

    costs = tsukuba_costs(folder)
    crf, edges = grid_crf(costs)
    crf.add(gm.Potts(edges, contrast=SMOOTH))
    height, width = costs.shape[:2]
    small, small_edges = grid_crf(costs[:8, :8])
    small.add(gm.Potts(small_edges, contrast=SMOOTH))
    gm.solve(small, solver="trws", max_iter=2)  # compiles
    pairwise = SMOOTH * (1.0 - np.eye(LABELS))
    labels, rival = cpu_seconds(
        lambda: gco.cut_grid_graph(
            costs,
            pairwise,
            np.ones((height - 1, width)),
            np.ones((height, width - 1)),
            n_iter=-1,
            algorithm="expansion",
        )
    )
    energy = crf.energy(labels.ravel())
    print(
        f"Potts {height} x {width} x {LABELS}, smoothness {SMOOTH} "
        f"({'tsukuba' if folder else 'generated'})"
    )
    print(f"  gco expansion   energy {energy:.2f}   {rival:.2f} CPU s")
    for solver in ("trws", "auto"):
        result, ours = cpu_seconds(
            lambda s=solver: gm.solve(crf, solver=s, tol=1e-4 * abs(energy), time_limit=120.0)
        )
        print(
            f"  gmlearn {solver:6s}  energy {result.energy:.2f}   {ours:.2f} CPU s = "
            f"{ours / rival:.1f} x gco   "
            f"relative gap {result.gap / abs(result.energy):.1e}   energy - gco "
            f"{result.energy - energy:+.2f}"
        )


def pn_pass(n=100):
    """A pass over the training samples, and what of it are the slaves: costs from weights,
    minimisers, features.
    """
    data = patch_samples(np.random.default_rng(0), n)
    samples = [gm.Sample(patch_crf(s), s["truth"], weight=1.0 / n) for s in data]
    read = min(
        cpu_seconds(lambda: [s["unary"].sum() + s["features"].sum() for s in data])[1]
        for _ in range(5)
    )
    print(
        f"Pn-Potts training, {n} samples of 50 x 50, all 3 x 3 cliques, 5 labels; reading the "
        f"data once {1e3 * read:.2f} ms"
    )
    blocks, solver = [s.crf.blocks[0] for s in samples], PnPottsSlave()
    theta = [
        np.random.default_rng(k).normal(size=(len(b.members), 5)) for k, b in enumerate(blocks)
    ]
    w = {"patch": np.random.default_rng(1).normal(size=(5, 3))}

    def slaves():
        for block, costs in zip(blocks, theta):
            block.features(solver.minimise(block, costs, solver.prepare(block, w))[0])

    alone = min(cpu_seconds(slaves)[1] for _ in range(4))
    print(f"  {'slaves alone':12s} {1e3 * alone:.0f} ms = {alone / read:.0f} x reading")
    for optimizer in ("bcfw", "stochastic"):
        times = []
        gm.train(
            samples,
            optimizer=optimizer,
            regularizer=gm.L2(1e-3),
            max_iter=8,
            tol=0.0,
            show_progress=False,
            callbacks=[lambda p, w, h, times=times: times.append(time.process_time())],
        )
        each = float(np.median(np.diff(times[1:])))
        print(f"  {optimizer:12s} {1e3 * each:.0f} ms a pass = {each / read:.0f} x reading")


if __name__ == "__main__":
    map_against_expansion(sys.argv[1] if len(sys.argv) > 1 else None)
    pn_pass()
