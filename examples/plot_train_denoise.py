"""Learn how smooth pictures are: V(|a - b|) from noisy ones.

Pictures of eight grey levels, smooth ramps cut by sharp borders, are seen through Gaussian noise.
The cost of a level is its squared distance to what is seen; the cost V of a difference between
neighbours is not chosen by hand but learnt, one weight for each difference, by max-margin training
with rows and columns as slaves. The loss is the truncated distance of levels.

What to see: the learnt V rises over the first two steps and then flattens, the truncated shape that
is otherwise picked by hand: it smooths and keeps borders. It bends down at large differences, which
are rare and where the ridge pulls it towards zero. V is held at zero for equal levels and not
negative elsewhere. The held-out picture has far fewer wrong levels than the noisy one has.
"""

import sys

import numpy as np

import gmlearn as gm

QUICK = "--quick" in sys.argv
SIDE, LEVELS, NOISE = 40, 8, 0.9
EDGES = gm.grid_edges(SIDE, SIDE)


def picture(rng):
    """Levels (SIDE * SIDE,): a few random half-planes and discs of ramps."""
    y, x = np.mgrid[:SIDE, :SIDE] / SIDE
    level = rng.random() * (LEVELS - 1) + 2 * (x - 0.5) * rng.normal()
    for _ in range(6):
        centre, radius = rng.random(2), 0.15 + 0.3 * rng.random()
        inside = np.hypot(y - centre[0], x - centre[1]) < radius
        level = np.where(
            inside, rng.random() * (LEVELS - 1) + 2 * (y - centre[0]) * rng.normal(), level
        )
    return np.clip(np.rint(level), 0, LEVELS - 1).astype(int).ravel()


def sample(rng):
    """A sample, and the noisy picture as it was seen."""
    truth = picture(rng)
    seen = truth + NOISE * rng.normal(size=truth.size)
    crf = gm.CRF(truth.size, LEVELS).add_unary(0.5 * (seen[:, None] - np.arange(LEVELS)) ** 2)
    crf.add(gm.Difference(EDGES, "V"))
    return gm.Sample(crf, truth, weight=1.0 / truth.size), seen


rng = np.random.default_rng(1)
samples = [sample(rng)[0] for _ in range(3 if QUICK else 8)]
same_level = np.where(np.arange(LEVELS) == 0, 0.0, np.inf)  # V(0) = 0, V >= 0
model = gm.train(
    samples,
    loss=gm.LabelDistance(2.0, 2.0),
    regularizer=gm.L2(1e-3),
    constraints={"V": gm.Box(0.0, same_level)},
    max_iter=15 if QUICK else 60,
)
print(model)
print("V =", np.round(model.weights["V"], 3))

held_out, seen = sample(rng)
noisy = np.clip(np.rint(seen), 0, LEVELS - 1).astype(int)
found = model.predict(held_out.crf)
wrong = {
    "seen": np.mean(noisy != held_out.labels),
    "found": np.mean(found.labels != held_out.labels),
}
print(
    f"held-out picture: {wrong['seen']:.1%} of the levels wrong before, {wrong['found']:.1%} "
    f"after (gap {found.gap:.2g})"
)

with gm.plot.styled() as plt:
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.3), width_ratios=(1, 1, 1, 1.3))
    shown = {
        "truth": held_out.labels,
        f"seen: {wrong['seen']:.0%} wrong": noisy,
        f"found: {wrong['found']:.0%} wrong": found.labels,
    }
    for panel, (title, labels) in zip(panels, shown.items()):
        panel.imshow(
            np.reshape(labels, (SIDE, SIDE)),
            cmap="cividis",
            vmin=0,
            vmax=LEVELS - 1,
            interpolation="nearest",
        )
        panel.set(title=title, xticks=[], yticks=[])
        panel.grid(False)
    panels[3].plot(model.weights["V"], marker="o", label="learnt V")
    panels[3].set(
        xlabel="difference of neighbours |a - b|",
        ylabel="cost",
        title="learnt smoothness",
        ylim=(0, None),
    )
    figure.savefig("plot_train_denoise.png", dpi=120, bbox_inches="tight")
