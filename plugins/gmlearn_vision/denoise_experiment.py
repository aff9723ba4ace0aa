"""``gmlearn run denoise``: learnt V on generated images and on grey ones, beside hand-tuned V
and classical filters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_vision.denoiser import POTENTIAL, Denoiser
from gmlearn_vision.middlebury import read_image
from gmlearn_vision.pattern_denoiser import PatternDenoiser
from gmlearn_vision.rivals import median_filter, non_local_means, psnr, total_variation
from gmlearn_vision.synthetic import piecewise_constant

Images = list[np.ndarray]
GREY = ("cameraman", "house", "peppers", "starfish", "monarch", "airplane", "parrot", "boat")
SIGMA = 25.0
#: the margin of a wrong pixel, in units of the data costs; a margin of 1 smooths too much (compared
#: on seeds 1 to 3)
MARGIN = 0.1
#: levels, shape of V, regularisation: what is tried on grey images
DESIGNS = (
    (32, "concave", 1e-6),
    (32, "monotone", 1e-6),
    (32, "concave", 1e-4),
    (64, "concave", 1e-6),
)


def run_denoise(run: gm.Run) -> None:
    """All parts; the grey images only where their folder is given."""
    curves = {"6 labels": _labels(run), "8 levels, sigma 40": _levels(run)}
    if run.data is None:
        run.note(
            "The grey images are left out: pass --data with a folder denoise/ of 8-bit PNGs and "
            "bsd68_crops160.npz."
        )
    else:
        curves["grey, sigma 25"] = _grey(run)
    _plot_potentials(run, curves)


# ---------------------------------------------------------------------- generated images


def _scenes(run: gm.Run, labels: int, sigma: float, n_shapes: int) -> tuple[Images, Images, int]:
    """Clean label images and noisy ones in units of labels; the first `n` are for training."""
    n = 4 if run.quick else 10
    rng = np.random.default_rng([run.seed, labels])
    clean = [piecewise_constant(rng, 50, 50, labels, n_shapes).astype(float) for _ in range(2 * n)]
    return clean, [c + sigma * rng.normal(size=c.shape) for c in clean], n


def _error(found: Any, truth: Images, labels: int) -> float:
    """Share of wrong labels after rounding to the nearest one."""
    return float(
        np.mean([np.mean(np.clip(np.rint(f), 0, labels - 1) != t) for f, t in zip(found, truth)])
    )


def _filters(sigma: float) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return {
        "median 3x3": median_filter,
        "median 5x5": lambda z: median_filter(z, 5),
        "total variation": lambda z: total_variation(z, 1.1 * sigma),
        "non-local means": lambda z: non_local_means(z, sigma),
    }


def _labels(run: gm.Run) -> Denoiser:
    """Six labels, noise about as large as their distance: test error while V is learnt, for
    three shapes of V.
    """
    clean, noisy, n = _scenes(run, 6, 1.02, 12)
    test, truth = noisy[n:], clean[n:]
    rows = [["nearest label", _error(test, truth, 6)]]
    rows += [[name, _error([f(z) for z in test], truth, 6)] for name, f in _filters(1.02).items()]
    traces, fitted = {}, {}
    for shape in ("free", "monotone", "concave"):
        denoiser = Denoiser(
            np.arange(6), shape=shape, max_iter=25 if run.quick else 80, loss=gm.Hamming(MARGIN)
        )
        trace = traces[shape] = [(0, rows[0][1])]

        def record(passes, weights, history, denoiser=denoiser, trace=trace):
            if passes in (1, 3, 6) or passes % 10 == 0:
                denoiser.potential_ = weights[POTENTIAL]
                trace.append((passes, _error(denoiser.predict(test), truth, 6)))

        fitted[shape] = denoiser.fit(noisy[:n], clean[:n], callbacks=[record])
        rows.append([f"learnt V, {shape}", _error(denoiser.predict(test), truth, 6)])
        run.value(f"6 labels: {shape}", rows[-1][1])
    run.table("Piecewise constant, 6 labels: share of wrong test pixels", ["method", "error"], rows)
    _plot_trace(run, traces, truth[0], test[0], fitted["monotone"])
    return fitted["monotone"]


def _levels(run: gm.Run) -> Denoiser:
    """Eight grey levels on 0..255 at sigma 40, beside the truncated linear V that is best on the
    training images.
    """
    clean, noisy, n = _scenes(run, 8, 40.0 * 7 / 255, 6)
    test, truth = noisy[n:], clean[n:]
    denoiser = Denoiser(
        np.arange(8), max_iter=25 if run.quick else 100, loss=gm.Hamming(MARGIN)
    ).fit(noisy[:n], clean[:n])
    learnt = _error(denoiser.predict(test), truth, 8)
    hand = Denoiser(np.arange(8), max_iter=0).fit(noisy[:n], clean[:n])
    slopes, cuts = ((0.7, 1.0), (1, 2)) if run.quick else ((0.4, 0.6, 0.8, 1.0, 1.3), (1, 2, 3))
    tried = {}
    for slope in run.progress(slopes, desc="truncated linear"):
        for cut in cuts:
            hand.potential_ = slope * np.minimum(np.arange(8), cut)
            tried[slope, cut] = (_error(hand.predict(noisy[:n]), clean[:n], 8), hand.potential_)
    best = min(tried, key=lambda key: tried[key][0])
    hand.potential_ = tried[best][1]
    tuned = _error(hand.predict(test), truth, 8)
    rows = [
        ["nearest level", _error(test, truth, 8)],
        *([k, _error([f(z) for z in test], truth, 8)] for k, f in _filters(40.0 * 7 / 255).items()),
    ]
    rows += [
        [f"{best[0]:g} min(d, {best[1]}), best by hand", tuned],
        ["learnt V, monotone", learnt],
    ]
    run.table(
        "Piecewise constant, 8 levels, sigma 40: share of wrong test pixels",
        ["method", "error"],
        rows,
    )
    run.value("8 levels: learnt", learnt)
    run.value("8 levels: best truncated linear", tuned)
    return denoiser


# ---------------------------------------------------------------------- grey images


def _grey(run: gm.Run) -> Denoiser:
    """Grey images under Gaussian noise: V learnt on crops of other images, MAP and posterior
    mean in dB.
    """
    rng = np.random.default_rng([run.seed, 25])
    denoiser = _chosen_denoiser(run, rng)
    patterns = _pattern_denoisers(run, rng)
    names = GREY[:3] if run.quick else GREY
    test = [read_image(run.path(f"denoise/{n}.png")) for n in names]
    test = [t[64:160, 64:160] if run.quick else t for t in test]
    noisy = _with_noise(rng, test)
    as_map = copy.copy(denoiser).set_params(output="map", solver_iter=8)
    methods = {
        "noisy": lambda z: z,
        "median 3x3": median_filter,
        "total variation": lambda z: total_variation(z, 0.75 * SIGMA),
        "non-local means": lambda z: non_local_means(z, SIGMA),
        "learnt V, posterior mean": denoiser.predict,
        "learnt V, MAP": as_map.predict,
        **{name: model.predict for name, model in patterns.items()},
    }
    results = {name: [f(z) for z in run.progress(noisy, desc=name)] for name, f in methods.items()}
    scores = {name: [psnr(f, t) for f, t in zip(found, test)] for name, found in results.items()}
    run.table(
        f"Grey images, sigma {SIGMA:g}: PSNR in dB",
        ["method", *names, "mean"],
        [[name, *values, float(np.mean(values))] for name, values in scores.items()],
    )
    for name, values in scores.items():
        run.value(f"grey: {name}", float(np.mean(values)))
    _plot_grey(
        run,
        test[0],
        {name: found[0] for name, found in results.items()},
        {n: s[0] for n, s in scores.items()},
    )
    return denoiser


def _pattern_denoisers(run: gm.Run, rng: np.random.Generator) -> dict[str, PatternDenoiser]:
    """Cliques of 3 x 3 pixels learnt on crops of every fourth Berkeley image, without and with
    their neighbours.
    """
    crops = np.load(run.path("denoise/bsd68_crops160.npz"))["images"].astype(float)
    side, count, passes = (32, 4, 3) if run.quick else (64, 17, 10)
    clean = [c[40 : 40 + side, 40 : 40 + side] for c in crops[1::4][:count]]
    noisy = _with_noise(rng, clean)
    found = {}
    for name, neighbours in (("3x3 patterns, alone", False), ("3x3 patterns", True)):
        model = PatternDenoiser(6 if run.quick else 15, neighbours=neighbours, max_iter=passes)
        found[name] = model.fit(noisy, clean)
        found[f"{name}, one look"] = copy.copy(model).set_params(looks=1)
    with gm.plot.styled():
        figure = found["3x3 patterns"].plot_patterns()[0].figure
    run.figure(
        "patterns.png",
        figure,
        "What the cliques learnt: each pattern by the window that it stretches most, its share and "
        "its size in grey levels, flat ones first.",
    )
    return found


def _with_noise(rng: np.random.Generator, images: Images) -> Images:
    return [x + SIGMA * rng.normal(size=x.shape) for x in images]


def _chosen_denoiser(run: gm.Run, rng: np.random.Generator) -> Denoiser:
    """The best of a few designs, fitted on crops of every fourth Berkeley image and compared on
    other ones: the test images have no say in it. A quick run takes the first design."""
    crops = np.load(run.path("denoise/bsd68_crops160.npz"))["images"].astype(float)
    side, count, passes = (32, 6, 15) if run.quick else (48, 16, 30)
    clean = [c[40 : 40 + side, 40 : 40 + side] for c in crops[:: 68 // count][:count]]
    noisy = _with_noise(rng, clean)
    held_out = [c[32:128, 32:128] for c in crops[2::8]]
    noisy_held_out = _with_noise(rng, held_out)
    rows, fitted = [], []
    for levels, shape, regularization in run.progress(
        DESIGNS[:1] if run.quick else DESIGNS, desc="designs"
    ):
        denoiser = Denoiser(
            np.linspace(0.0, 255.0, levels),
            data="quadratic",
            output="mean",
            shape=shape,
            max_iter=passes,
            regularization=regularization,
        )
        fitted.append(denoiser.fit(noisy, clean))
        if not run.quick:
            score = float(
                np.mean(
                    [
                        psnr(np.asarray(denoiser.predict(z)), x)
                        for z, x in zip(noisy_held_out, held_out)
                    ]
                )
            )
            rows.append([levels, shape, regularization, score])
    if run.quick:
        return fitted[0]
    run.table(
        f"Designs compared on {len(held_out)} images that are used for nothing else: PSNR of the "
        f"posterior mean in dB",
        ["levels", "shape of V", "regularisation", "PSNR"],
        rows,
    )
    best = int(np.argmax([r[-1] for r in rows]))
    run.value(
        "grey: chosen design", dict(zip(("levels", "shape", "regularisation", "PSNR"), rows[best]))
    )
    return fitted[best]


# ---------------------------------------------------------------------- pictures


def _plot_trace(
    run: gm.Run, traces: dict, truth: np.ndarray, noisy: np.ndarray, denoiser: Denoiser
) -> None:
    with gm.plot.styled() as plt:
        figure, panels = plt.subplots(1, 4, figsize=(12, 3.1), width_ratios=(1.5, 1, 1, 1))
        for shape, trace in traces.items():
            panels[0].plot(*zip(*trace), marker="o", markersize=3, label=shape)
        panels[0].set(
            xlabel="passes",
            ylabel="wrong test pixels",
            title="test error while V is learnt",
            ylim=(0, None),
        )
        panels[0].legend(title="shape of V")
        shown = {"truth": truth, "noisy": noisy, "learnt V, monotone": denoiser.predict(noisy)}
        for panel, (title, image) in zip(panels[1:], shown.items()):
            gm.plot.image(panel, image, title, vmin=0, vmax=5)
    run.figure(
        "labels.png",
        figure,
        "Six labels under noise: test error in the course of learning, and one test image.",
    )


def _plot_potentials(run: gm.Run, fitted: dict[str, Denoiser]) -> None:
    with gm.plot.styled() as plt:
        figure, panels = plt.subplots(1, len(fitted), figsize=(4 * len(fitted), 3))
        for panel, (name, denoiser) in zip(np.atleast_1d(panels), fitted.items()):
            denoiser.plot_potential(panel)
            panel.set_title(name)
    run.figure(
        "potentials.png",
        figure,
        "The learnt V: it rises, then saturates, so that true borders survive.",
    )


def _plot_grey(
    run: gm.Run, truth: np.ndarray, found: dict[str, np.ndarray], scores: dict[str, float]
) -> None:
    with gm.plot.styled() as plt:
        figure, panels = plt.subplots(1, len(found) + 1, figsize=(2.3 * (len(found) + 1), 2.9))
        titles = ["truth", *(f"{n.removeprefix('learnt V, ')}\n{scores[n]:.2f} dB" for n in found)]
        for panel, image, title in zip(panels, [truth, *found.values()], titles):
            gm.plot.image(panel, image, title, cmap="gray", vmin=0, vmax=255)
    run.figure("grey.png", figure, f"Gaussian noise of sigma {SIGMA:g}, one test image.")
