"""Learning where a disparity map may break.

Stereo with a Potts term modulated by the contrast of the image: f(|gradient|) and the weight of the
data are learnt from one pair with its true disparities. Pass a folder of Middlebury scenes
(``--data DIR`` with stereo/venus and stereo/sawtooth) to learn on venus and test on sawtooth;
without it, generated scenes are used.

What to see: pixels that only one camera sees (a strip to the left of near objects) are wrong until
the map is checked against that of the right image, and filled from the background.
"""

import argparse
import pathlib

import numpy as np
from gmlearn_vision import StereoMatcher, StereoPair, bad_pixels, load_middlebury

import gmlearn as gm

LABELS = 21


def generated(seed, height=90, width=160):
    """Smooth textured layers at different depths, with noise."""
    rng = np.random.default_rng(seed)
    depth, depth_right = np.full((height, width), 3.0), np.full((height, width), 3.0)
    layers = {3: rng.random((height, width + LABELS))}
    for d in (7, 11, 15):
        y, x = rng.integers(5, height - 45), rng.integers(25, width - 60)
        depth[y : y + 40, x : x + 50], depth_right[y : y + 40, x - d : x - d + 50] = d, d
        layers[d] = 0.6 * rng.random() + 0.4 * rng.random((height, width + LABELS))
    smooth = {
        d: 200 * np.cumsum(t - 0.5, axis=1) / 8 % 100 + 100 * t.mean() for d, t in layers.items()
    }
    left, right = np.zeros((height, width)), np.zeros((height, width))
    for d, texture in smooth.items():
        left, right = (
            np.where(depth == d, texture[:, :width], left),
            np.where(depth_right == d, texture[:, d : d + width], right),
        )
    noise = 6 * rng.normal(size=(2, height, width))
    return StereoPair("generated", left + noise[0], right + noise[1], depth, depth_right)


parser = argparse.ArgumentParser()
parser.add_argument("--data", type=pathlib.Path, default=None)
parser.add_argument("--quick", action="store_true")
folder, quick = parser.parse_args().data, parser.parse_args().quick
if folder is None:
    train, test = generated(0), generated(1)
else:
    train, test = (load_middlebury(folder / "stereo" / name) for name in ("venus", "sawtooth"))

matcher = StereoMatcher(LABELS, max_iter=5 if quick else 25, solver_iter=20).fit(
    [(train.left, train.right)], [train.disparity]
)
found = {
    "learnt": matcher.predict(test.left, test.right),
    "with check and fill": matcher.predict(test.left, test.right, check=True),
}

with gm.plot.styled() as plt:
    figure, panels = plt.subplots(1, 5, figsize=(15, 2.8), width_ratios=(1.2, 1, 1, 1, 1))
    matcher.plot_contrast(panels[0])
    panels[0].set_title("the learnt f")
    for panel, (name, image) in zip(
        panels[1:], {"left image": test.left, "truth": test.disparity, **found}.items()
    ):
        if name in found:
            name += f"\n{bad_pixels(image, test.disparity):.1%} wrong by more than 1"
            print(name.replace("\n", ": "))
        grey = name == "left image"
        image = np.clip(image, 0, 255).astype(np.uint8) if grey else image
        scale = {"cmap": "gray", "vmax": 255} if grey else {"vmax": LABELS - 1}
        gm.plot.image(panel, image, name, vmin=0, **scale)
    figure.savefig("plot_stereo.png", dpi=120, bbox_inches="tight")
