"""``gmlearn run pn-potts``: Pn-Potts costs beta_l = w_l . z_l learnt on 100 grids with all 3x3
cliques.
"""

from __future__ import annotations

import time
from typing import Any

import matplotlib
import numpy as np

import gmlearn as gm
from gmlearn_vision.synthetic import patch_samples

LABELS = 5
#: beta_max; the learnt beta_l are relative to it
BETA_MAX = 0.0
#: optimisers and their settings; the steps are those with the lowest training objective on another
#: draw (seed 5)
OPTIMISERS: dict[str, dict[str, Any]] = {
    "bcfw": {},
    "stochastic": {"step": 2.0, "lambda_step": 0.4},
}


def patch_crf(sample: dict) -> gm.CRF:
    """The model of one sample: fixed noisy unary costs, and cliques with the learnt segment
    "patch" (L, F).
    """
    crf = gm.CRF(len(sample["truth"]), LABELS).add_unary(sample["unary"])
    crf.add(
        "pn_potts",
        cliques=sample["cliques"],
        features=sample["features"],
        beta_max=BETA_MAX,
        weight="patch",
    )
    return crf


def solve(crf: gm.CRF, weights: dict) -> np.ndarray:
    """A labelling of low energy, with the same effort everywhere."""
    return gm.solve(crf, weights, solver="bcfw", max_iter=12).labels


def test_error(crfs: list[gm.CRF], truths: list[np.ndarray], weights: dict) -> float:
    """Share of wrong labels of MAP labellings."""
    return float(np.mean([np.mean(solve(c, weights) != t) for c, t in zip(crfs, truths)]))


def run_pn_potts(run: gm.Run) -> None:
    """Objective and test error for each pass over the training samples, by two optimisers."""
    n_train, n_test, side = (10, 3, 30) if run.quick else (100, 6, 50)
    data = patch_samples(np.random.default_rng(run.seed), n_train + n_test, side, LABELS)
    crfs, truths = [patch_crf(s) for s in data], [s["truth"] for s in data]
    samples = [
        gm.Sample(c, t, weight=1.0 / (n_train * side * side))
        for c, t in zip(crfs[:n_train], truths)
    ]
    test = crfs[n_train:], truths[n_train:]
    start = test_error(*test, {"patch": np.zeros((LABELS, data[0]["features"].shape[2]))})
    read = _seconds_to_read(data[:n_train])
    run.value("test error at w = 0", start)
    run.value("CPU s to read the data once", read)
    traces, models = {}, {}
    for optimizer in run.progress(list(OPTIMISERS), desc="optimisers"):
        models[optimizer], trace = _train(run, samples, test, optimizer)
        traces[optimizer] = [(0, float("nan"), start, 0.0), *trace]
        passes, objective, error, seconds = trace[-1]
        # the first pass waits for slaves to be built
        each = (seconds - trace[0][3]) / (passes - trace[0][0])
        run.value(
            optimizer,
            {
                "test error": error,
                "objective": objective,
                "CPU s a pass": each,
                "pass / reading": each / read,
            },
        )
    run.table(
        "Learning Pn-Potts costs",
        ["optimiser", "passes", "objective", "test error", "CPU s"],
        [[name, *row] for name, trace in traces.items() for row in trace],
    )
    _plot(run, traces, side, data[n_train], solve(test[0][0], models["bcfw"].weights))


def _train(
    run: gm.Run, samples: list[gm.Sample], test: tuple, optimizer: str
) -> tuple[gm.TrainedModel, list[tuple]]:
    """The model, and rows (passes, objective, test error, CPU seconds without the time for
    testing).
    """
    trace: list[tuple] = []
    clock = {"start": time.process_time(), "left out": 0.0}
    last, watched = (11, (1, 3, 6, 11)) if run.quick else (31, (1, 2, 3, 6, 11, 16, 21, 26, 31))

    def record(passes: int, weights: dict, history: gm.TrainingHistory) -> None:
        begin = time.process_time()
        if passes in watched:
            spent = begin - clock["start"] - clock["left out"]
            trace.append(
                (passes, history.objective[-1], test_error(test[0], test[1], weights), spent)
            )
        clock["left out"] += time.process_time() - begin

    model = gm.train(
        samples,
        optimizer=optimizer,
        regularizer=gm.L2(1e-5),
        max_iter=last,
        tol=0.0,
        seed=run.seed,
        callbacks=[record],
        **OPTIMISERS[optimizer],
    )
    return model, trace


def _seconds_to_read(data: list[dict]) -> float:
    """CPU time of summing the costs and features of all samples once, the best of a few times."""
    times = []
    for _ in range(7):
        begin = time.process_time()
        for sample in data:
            sample["unary"].sum()
            sample["features"].sum()
        times.append(time.process_time() - begin)
    return max(min(times), 1e-9)


def _plot(
    run: gm.Run, traces: dict[str, list[tuple]], side: int, sample: dict, labels: np.ndarray
) -> None:
    with gm.plot.styled() as plt:
        figure, panels = plt.subplots(1, 5, figsize=(14.5, 3), width_ratios=(1.3, 1.3, 1, 1, 1))
        for name, trace in traces.items():
            passes, objective, error, _ = np.array(trace).T
            known = np.isfinite(objective)
            panels[0].plot(passes[known], objective[known], marker="o", markersize=3, label=name)
            panels[1].plot(passes, error, marker="o", markersize=3, label=name)
        panels[0].set(xlabel="passes", title="objective", ylim=(0, None))
        panels[1].set(xlabel="passes", title="wrong test pixels", ylim=(0, None))
        panels[1].legend()
        colours = matplotlib.colors.ListedColormap(gm.plot.PALETTE[:LABELS])
        shown = {
            "truth": sample["truth"],
            "unary costs alone": sample["unary"].argmin(axis=1),
            "with learnt cliques": labels,
        }
        for panel, (title, image) in zip(panels[2:], shown.items()):
            labels = image.reshape(side, side)
            limits = {"vmin": 0, "vmax": LABELS - 1, "interpolation": "nearest"}
            gm.plot.image(panel, labels, title, cmap=colours, **limits)
    run.figure(
        "pn_potts.png",
        figure,
        "Learning high-order cliques: objective, test error, and one test grid.",
    )
