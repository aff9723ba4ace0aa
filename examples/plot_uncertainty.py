"""An uncertain segmentation, and how often it is right.

Noisy pictures of two labels on a grid. The weights are learnt by a convex upper bound of the
negative log-likelihood; with them ``gm.marginals`` gives every pixel a probability. The grid is too
wide for exact inference, so log Z lies between two bounds and the marginals are those of the convex
one, beside loopy belief propagation, which has no bound. Rows and columns bound it in seconds; the
default, overlapping hypertrees, bounds it more tightly and trains for minutes.

What to see: entropy is high along borders and where the noise misleads. On the right, pixels are
grouped by their confidence: calibrated probabilities lie on the diagonal, because of all pixels
with confidence 0.8 eight in ten are right.
"""

import sys

import numpy as np
from gmlearn_vision import piecewise_constant

import gmlearn as gm

QUICK = "--quick" in sys.argv
SIDE, N_TRAIN, N_TEST = (14, 4, 3) if QUICK else (40, 10, 8)
rng = np.random.default_rng(0)


def sample():
    """A picture of blobs, and noise so strong that a pixel alone says little."""
    truth = (piecewise_constant(rng, SIDE, SIDE, 4) % 2).ravel()
    seen = truth + 0.9 * rng.normal(size=truth.size)
    crf = gm.CRF(truth.size, 2)
    crf.add(gm.Unary(np.stack([seen, np.ones(truth.size)], axis=1)))
    crf.add(gm.Potts(gm.grid_edges(SIDE, SIDE), weight="smooth"))
    return gm.Sample(crf, truth), seen


samples = [sample() for _ in range(N_TRAIN + N_TEST)]
model = gm.train(
    [s for s, _ in samples[:N_TRAIN]],
    loss="none",
    temperature=1.0,
    decomposition="chains",
    regularizer=gm.L2(0.1),
)
print(f"{model.objective_kind}: smooth = {float(model.weights['smooth']):.3f}")
test = samples[N_TRAIN:]
truth = np.concatenate([s.labels for s, _ in test])
curves = {}
for method, settings in (("trw", {"decomposition": "chains"}), ("loopy-bp", {})):
    found = [model.predict_marginals(s.crf, method=method, **settings) for s, _ in test]
    node = np.concatenate([m.node for m in found])
    right = node.argmax(axis=1) == truth
    confidence = node.max(axis=1)
    group = np.minimum((confidence * 20).astype(int) - 10, 9)
    used = np.flatnonzero(np.bincount(group, minlength=10) >= 20)
    curves[method] = [
        (confidence[group == g].mean(), right[group == g].mean(), (group == g).sum()) for g in used
    ]
    off = sum(n * abs(c - r) for c, r, n in curves[method]) / len(truth)
    print(
        f"{method:8} right {right.mean():.3f}, mean confidence {confidence.mean():.3f}, "
        f"calibration error {off:.3f}"
    )
both = gm.marginals(test[0][0].crf, model.weights)
print(f"log Z of the first picture: {both.lower:.1f} to {both.upper:.1f}, {both.status}")

with gm.plot.styled() as plt:
    figure, (left, middle, right_ax) = plt.subplots(1, 3, figsize=(11, 3.4))
    left.imshow(test[0][1].reshape(SIDE, SIDE), cmap="gray")
    left.contour(test[0][0].labels.reshape(SIDE, SIDE), [0.5], colors="C1", linewidths=1)
    left.set_title("seen, and the true border")
    left.set_axis_off()
    both.plot(middle, shape=(SIDE, SIDE))
    right_ax.plot([0.5, 1], [0.5, 1], color="0.6", linewidth=1)
    for method, points in curves.items():
        x, y, _ = np.array(points).T
        right_ax.plot(x, y, "o-", label=method, markersize=4)
    right_ax.set_xlabel("confidence")
    right_ax.set_ylabel("share that is right")
    right_ax.legend()
    figure.savefig("uncertainty.png", dpi=110)
