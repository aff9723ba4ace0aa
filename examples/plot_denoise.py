"""Learning how neighbouring pixels differ.

A grid model with the energy sum |x - z| + sum V(|a - b|): V is learnt from a few noisy images with
their clean versions, by maximum margin. It may have any shape, or be held monotone.

What to see: V rises and then saturates, so that true borders survive. The free V bends down at
large differences, which are too rare in the training images to be pinned down; held monotone it
stays flat there. Missing pixels (white) are filled in as well.
"""

import sys

import numpy as np
from gmlearn_vision import Denoiser, median_filter, piecewise_constant

import gmlearn as gm

LABELS = 6
QUICK = "--quick" in sys.argv
rng = np.random.default_rng(0)
clean = [piecewise_constant(rng, 50, 50, LABELS).astype(float) for _ in range(4 if QUICK else 9)]
noisy = [c + rng.normal(size=c.shape) for c in clean]
noisy[-1][20:26, 12:40] = np.nan
test, truth = noisy[-1], clean[-1]
seen = ~np.isnan(test)

pictures = {
    "truth": truth,
    "noisy": test,
    "median 5 x 5": median_filter(np.where(seen, test, np.nanmean(test)), 5),
}
fitted = {}
for shape in ("free", "monotone"):
    fitted[shape] = Denoiser(np.arange(LABELS), shape=shape, max_iter=10 if QUICK else 40).fit(
        noisy[:-1], clean[:-1]
    )
    pictures[f"learnt, {shape}"] = fitted[shape].predict(test)

with gm.plot.styled() as plt:
    figure, panels = plt.subplots(
        1, 1 + len(pictures), figsize=(15, 3), width_ratios=[1.5] + [1] * len(pictures)
    )
    for shape, denoiser in fitted.items():
        denoiser.plot_potential(panels[0], label=shape)
    panels[0].set_title("the learnt V")
    panels[0].legend()
    for panel, (name, image) in zip(panels[1:], pictures.items()):
        wrong = np.mean(np.clip(np.rint(image), 0, LABELS - 1)[seen] != truth[seen])
        print(f"{name:16s} wrong pixels {wrong:6.1%}")
        title = name if name == "truth" else f"{name}\n{wrong:.1%} wrong"
        gm.plot.image(panel, image, title, vmin=0, vmax=LABELS - 1, interpolation="nearest")
    figure.savefig("plot_denoise.png", dpi=120, bbox_inches="tight")
