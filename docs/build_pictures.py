"""Two pictures: the README's (one noisy label map, two models, and the certificate), and the bound
of a frustrated grid against time, with larger slaves and without.

    python docs/build_pictures.py

Writes docs/pages/images/tour.png and tightening.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import gmlearn as gm

IMAGES = Path(__file__).parent / "pages" / "images"
PICTURE = IMAGES / "tour.png"
HEIGHT, WIDTH, LABELS = 40, 60, 3


def model(costs: np.ndarray, cliques: bool) -> gm.CRF:
    """The README's model, with or without its high-order cliques."""
    crf = gm.CRF(HEIGHT * WIDTH, LABELS).add_unary(costs)
    crf.add(gm.Potts(gm.grid_edges(HEIGHT, WIDTH), weight="smooth"))
    if cliques:
        crf.add("pn_potts", cliques=gm.grid_cliques(HEIGHT, WIDTH, 3, 3), beta=-1.0)
    return crf


def main() -> None:
    rng = np.random.default_rng(0)
    truth = np.add.outer(np.arange(HEIGHT) // 14, np.arange(WIDTH) // 20).ravel() % LABELS
    costs = rng.normal(size=(HEIGHT * WIDTH, LABELS)) - 0.8 * np.eye(LABELS)[truth]
    # edges alone get the strength that suits them best, so that the picture compares models
    alone = [
        gm.solve(model(costs, False), weights={"smooth": strength})
        for strength in (0.4, 0.6, 0.8, 1.0, 1.2)
    ]
    edges = min(alone, key=lambda answer: np.mean(answer.labels != truth))
    cliques = gm.solve(model(costs, True), weights={"smooth": 0.4})
    with plt.rc_context(gm.plot.style()):
        figure, axes = plt.subplots(1, 4, figsize=(11.5, 2.5), width_ratios=(1, 1, 1, 1.15))
        maps = (
            ("noisy input", costs.argmin(axis=1)),
            ("edges, tuned", edges.labels),
            ("with 3x3 cliques", cliques.labels),
        )
        for ax, (title, labels) in zip(axes, maps):
            ax.imshow(
                labels.reshape(HEIGHT, WIDTH),
                cmap=ListedColormap(gm.plot.PALETTE[:LABELS]),
                interpolation="nearest",
            )
            ax.set(title=f"{title}: {np.mean(labels != truth):.1%} wrong", xticks=[], yticks=[])
        history = cliques.history
        known = np.isfinite(history.bound) & np.isfinite(history.energy)
        rounds = np.array(history.iteration)[known]
        axes[3].plot(rounds, np.array(history.energy)[known], label="energy")
        axes[3].plot(rounds, np.array(history.bound)[known], label="lower bound")
        axes[3].set(title=f"certificate: gap {cliques.gap:.0g}", xlabel="round")
        axes[3].legend()
    figure.savefig(PICTURE, dpi=90)
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB; {cliques}")


def draw_tightening() -> None:
    """Bounds of a spin glass with fields: chains alone, and what `auto` adds to them."""
    rng = np.random.default_rng(1)
    edges = gm.grid_edges(30, 30)
    glass = gm.CRF(900, 2).add_unary(0.2 * rng.normal(size=(900, 2)))
    glass.add(gm.Potts(edges, rng.normal(size=len(edges))))
    gm.solve(glass, time_limit=0.2)  # kernels are loaded
    # progress is asked for because it brings the rounds of the part that QPBO leaves open
    tightened = gm.solve(glass, on_progress=lambda result: False)
    chains = gm.solve(glass, solver="bcfw", time_limit=max(tightened.seconds, 1.0))
    with plt.rc_context(gm.plot.style()):
        figure, ax = plt.subplots(figsize=(6, 3))
        for name, result in (("chains", chains), ("auto: growing windows", tightened)):
            ax.step(
                result.history.seconds,
                result.history.bound,
                where="post",
                label=f"bound, {name}",
            )
        ax.axhline(tightened.energy, color="black", lw=1, ls=":", label="energy, proved optimal")
        ax.set(xlabel="seconds", ylabel="energy, bound", title="Spin glass 30x30 with fields")
        low = np.median(chains.history.bound)
        ax.set_ylim(low - 0.3 * (tightened.energy - low), None)
        ax.legend(loc="center right")
        figure.savefig(IMAGES / "tightening.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
    draw_tightening()
