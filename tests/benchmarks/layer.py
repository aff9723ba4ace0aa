"""Structured losses: against a likelihood pass of training, and warm against cold.

python tests/benchmarks/layer.py
"""

from __future__ import annotations

import time

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
    crfs, truths, w = words()
    options = gm.TrainingOptions(loss="none", temperature=1.0, regularizer=gm.L2(1.0))
    objective = gm.build_objective([gm.Sample(c, y) for c, y in zip(crfs, truths)], options)
    flat = objective.layout.join(w)

    def one_pass():
        vertices = objective.vertices(flat)
        return objective.value(flat, vertices), objective.slope(vertices)

    base, _ = seconds(one_pass)
    cold, answer = seconds(lambda: gm.structured_loss(crfs, truths, w, kind="likelihood"))
    state = answer.state
    warm, _ = seconds(lambda: gm.structured_loss(crfs, truths, w, kind="likelihood", state=state))
    print(
        f"6000 words: pass of training {base:.2f} s; loss {warm / base:.2f}, new models {cold / base:.2f}"
    )


def warm_against_cold(side=64):
    rng = np.random.default_rng(0)
    truth = np.add.outer(np.arange(side) // 20, np.arange(side) // 20).ravel() % 3
    base = gm.CRF(side * side, 3)
    base.add(gm.Potts(gm.grid_edges(side, side), 0.4))
    base.add("pn_potts", cliques=gm.grid_cliques(side, side, 3, 3), beta=-0.3)
    unary = rng.normal(size=(side * side, 3)) - 0.8 * np.eye(3)[truth]
    before = base.copy().add_unary(unary)
    after = base.copy().add_unary(unary + 0.01 * rng.normal(size=unary.shape))
    for kind in ("hinge", "likelihood"):
        state = gm.structured_loss(before, truth, kind=kind).state
        cold, a = seconds(lambda kind=kind: gm.structured_loss(after, truth, kind=kind))
        warm, b = seconds(
            lambda kind=kind, state=state: gm.structured_loss(
                after, truth, kind=kind, state=gm.LossState(state.costs)
            )
        )
        print(f"{kind}, grid with cliques: cold {cold:.2f} s, warm {warm / cold:.2f} of it")
        print(f"  loss {a.value:.2f} cold, {b.value:.2f} warm")


if __name__ == "__main__":
    against_training()
    warm_against_cold()
