"""Structured losses: against a likelihood pass of training, and warm against cold.

python tests/benchmarks/layer.py [--only words|batches|grids|sparsemap] [--seeds 10 11 12]
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np

import gmlearn as gm


def seconds(run, tries=3):
    """(CPU seconds of the fastest of some calls, the last answer)."""
    best = np.inf
    for _ in range(tries):
        start = time.process_time()
        answer = run()
        best = min(best, time.process_time() - start)
    return best, answer


def words(n=6000, labels=26, inputs=128):
    """Generated words of 3 to 14 letters: models and labels."""
    rng = np.random.default_rng(0)
    crfs, truths = [], []
    for k in rng.integers(3, 15, n):
        crf = gm.CRF(int(k), labels)
        crf.add(gm.Unary((rng.random((k, inputs)) < 0.2).astype(float), weight="u"))
        edges = np.stack([np.arange(k - 1), np.arange(1, k)], axis=1)
        crf.add(gm.Pairwise(edges, weight="p", symmetric=False))
        crfs.append(crf)
        truths.append(rng.integers(0, labels, k))
    w = {"u": 0.1 * rng.normal(size=(labels, inputs)), "p": 0.1 * rng.normal(size=(labels, labels))}
    return crfs, truths, w


def against_training():
    """A loss with all gradients but those in the blocks' numbers, against a pass of training."""
    crfs, truths, w = words()
    options = gm.TrainingOptions(loss="none", temperature=1.0, regularizer=gm.L2(1.0))
    objective = gm.build_objective([gm.Sample(c, y) for c, y in zip(crfs, truths)], options)
    flat = objective.layout.join(w)

    def one_pass():
        vertices = objective.vertices(flat)
        return objective.value(flat, vertices), objective.slope(vertices)

    base, _ = seconds(one_pass, 5)
    cold, answer = seconds(lambda: gm.structured_loss(crfs, truths, w, kind="likelihood"))
    state = answer.state
    warm, _ = seconds(
        lambda: gm.structured_loss(crfs, truths, w, kind="likelihood", state=state), 5
    )
    plan = gm.LossPlan(crfs, truths, kind="likelihood")
    rng = np.random.default_rng(1)
    costs = [rng.normal(size=(crf.n_vars, 26)).astype(np.float32) for crf in crfs]
    planned, _ = seconds(lambda: plan(costs, w), 5)
    print(
        f"6000 words: pass of training {base:.3f} s; plan with costs from outside "
        f"{planned / base:.2f} of it, same models with state {warm / base:.2f}, new models "
        f"{cold / base:.2f}"
    )
    blocks, _ = seconds(lambda: plan(costs, w).blocks)
    print(f"  with gradients in all blocks' numbers {blocks / base:.2f}")


def batches():
    """Models without unary costs of their own under costs from outside: planned, in shuffled
    batches, and built anew for every step.
    """
    crfs, truths, w = words()
    options = gm.TrainingOptions(loss="none", temperature=1.0, regularizer=gm.L2(1.0))
    objective = gm.build_objective([gm.Sample(c, y) for c, y in zip(crfs, truths)], options)
    flat = objective.layout.join(w)
    base, _ = seconds(lambda: objective.slope(objective.vertices(flat)), 5)
    rng = np.random.default_rng(1)
    costs = [rng.normal(size=(crf.n_vars, 26)) for crf in crfs]
    pair = {"p": w["p"]}

    def built():
        made = []
        for cost in costs:
            n = len(cost)
            crf = gm.CRF(n, 26).add_unary(cost)
            edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
            crf.add(gm.Pairwise(edges, weight="p", symmetric=False))
            made.append(crf)
        return made

    for kind in ("likelihood", "hinge"):
        structures = [crf.copy() for crf in crfs]
        for crf in structures:
            crf.remove(crf.blocks[0])
        plan = gm.LossPlan(structures, truths, kind=kind)

        def epoch(size, plan=plan, structures=structures):
            order = rng.permutation(len(structures))
            for begin in range(0, len(order), size):
                chosen = order[begin : begin + size]
                plan([costs[k] for k in chosen], pair, samples=chosen)

        print(f"{kind}, 6000 words, in passes of the likelihood's training ({base:.3f} s):")
        for size in (6000, 1000, 256, 64):
            spent, _ = seconds(lambda size=size: epoch(size))
            print(f"  shuffled batches of {size}: {spent / base:.2f}")
        making, made = seconds(built, 2)
        spent, _ = seconds(
            lambda made=made, kind=kind: gm.structured_loss(made, truths, pair, kind=kind)
        )
        print(f"  models built anew: {spent / base:.2f}, and {making / base:.2f} to build them")


def grid(side, seed):
    """(model, costs before and after a small change, labels)."""
    rng = np.random.default_rng(seed)
    truth = np.add.outer(np.arange(side) // 20, np.arange(side) // 20).ravel() % 3
    crf = gm.CRF(side * side, 3)
    crf.add(gm.Potts(gm.grid_edges(side, side), 0.4))
    crf.add("pn_potts", cliques=gm.grid_cliques(side, side, 3, 3), beta=-0.3)
    unary = rng.normal(size=(side * side, 3)) - 0.8 * np.eye(3)[truth]
    return crf, unary, unary + 0.01 * rng.normal(size=unary.shape), truth


def warm_against_cold(seed, side=64):
    """Both build their slaves anew; a plan does not, and takes costs that changed once more."""
    base, before, after, truth = grid(side, seed)
    first, second = (base.copy().add_unary(u) for u in (before, after))
    for kind in ("hinge", "likelihood"):
        state = gm.structured_loss(first, truth, kind=kind).state
        kept = gm.LossState(state.costs)
        cold, a = seconds(lambda kind=kind: gm.structured_loss(second, truth, kind=kind), 2)
        warm, b = seconds(
            lambda kind=kind, kept=kept: gm.structured_loss(second, truth, kind=kind, state=kept)
        )
        plan = gm.LossPlan(base, truth, kind=kind)
        planned, _ = seconds(lambda plan=plan, kept=kept: plan(after, state=kept))
        print(
            f"{kind}, grid {side}x{side} with cliques, seed {seed}: cold {cold:.2f} s, warm "
            f"{warm / cold:.2f} of it, by a plan {planned / cold:.2f}; loss {a.value:.3f} cold, "
            f"{b.value:.3f} warm; gap {a.gap:.2g}, {b.gap:.2g}"
        )


def warm_sparsemap(seed, sides=(12, 24, 64)):
    """SparseMAP from the state of an earlier call, its working sets included."""
    for side in sides:
        base, before, after, truth = grid(side, seed)
        first, second = (base.copy().add_unary(u) for u in (before, after))
        tries = 3 if side < 64 else 1
        options = {"truth": truth, "kind": "sparsemap"}
        state = gm.structured_loss(first, **options).state
        cold, a = seconds(partial(gm.structured_loss, second, **options), tries)
        options["state"] = state
        warm, b = seconds(partial(gm.structured_loss, second, **options), tries)
        print(
            f"sparsemap, grid {side}x{side} with cliques, seed {seed}: cold {cold:.2f} s, warm "
            f"{warm / cold:.2f} of it; loss {a.value:.3f} cold, {b.value:.3f} warm; gap "
            f"{a.gap:.2g}, {b.gap:.2g}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("words", "batches", "grids", "sparsemap"))
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    chosen = parser.parse_args()
    if chosen.only in (None, "words"):
        against_training()
    if chosen.only in (None, "batches"):
        batches()
    for number in chosen.seeds if chosen.only in (None, "grids") else ():
        warm_against_cold(number)
    for number in chosen.seeds if chosen.only in (None, "sparsemap") else ():
        warm_sparsemap(number)
