"""A convolutional network under Potts edges and Pn-Potts cliques: noisy shapes.

Images of discs and bars in heavy noise; three labels. A small convolutional network (JAX, two
layers of 5x5 filters) gives each pixel three costs; under it lie a grid of Potts edges and Pn-Potts
cliques of 3x3 pixels, whose strengths are fixed. Three models are compared on held-out images: the
network alone; the same grid and cliques over linear costs of fixed features (the pixel, and means
of its surroundings); and the network under the grid and cliques, trained by the structured hinge
(`gmlearn.layers.jax.StructuredLoss`), whose dual state is kept for each image between epochs.

What to see: the model of fixed features loses the bars, whose texture it cannot see; the network
alone finds them and leaves specks; under the cliques the specks go. The network's own filters see
most of what the cliques know, so that its rate falls by little, within the spread over seeds. Rates
are means over seeds of first weights and images.
"""

import sys

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gmlearn as gm
from gmlearn.layers.jax import StructuredLayer, StructuredLoss

QUICK = "--quick" in sys.argv
SIDE, IMAGES, SEEDS, EPOCHS = (12, 4, 1, 2) if QUICK else (24, 12, 3, 15)
CHANNELS, NOISE, L = 8, 1.1, 3


def shapes(rng):
    """(image (SIDE, SIDE), labels): 0 background, 1 disc, 2 bar; all differ by texture as well."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    labels = np.zeros((SIDE, SIDE), int)
    row, column = rng.integers(SIDE // 4, 3 * SIDE // 4, 2)
    labels[(rows - row) ** 2 + (columns - column) ** 2 < (SIDE / 4.5) ** 2] = 1
    first = int(rng.integers(SIDE - 4))
    labels[:, first : first + 3] = 2
    texture = np.where((rows + columns) % 2 == 0, 1.0, -1.0)  # of bars: a chequerboard
    clean = np.choose(labels, [np.full(labels.shape, -0.7), np.full(labels.shape, 0.7), texture])
    return clean + NOISE * rng.normal(size=labels.shape), labels


def model():
    crf = gm.CRF(SIDE * SIDE, L)
    crf.add(gm.Potts(gm.grid_edges(SIDE, SIDE), 0.3))
    crf.add("pn_potts", cliques=gm.grid_cliques(SIDE, SIDE, 3, 3), beta=-0.2)
    return crf


def convolved(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def network(p, x):
    """Costs (B, V, 3) of images (B, SIDE, SIDE)."""
    x = jax.nn.relu(convolved(x[..., None], p["a"]) + p["b"])
    return (convolved(x, p["c"]) + p["d"]).reshape(len(x), -1, L)


def fixed(p, x):
    """Costs from the pixel, its square, and means over 3x3 and 7x7 pixels."""

    def mean(size):
        return convolved(x[..., None], jnp.full((size, size, 1, 1), 1.0 / size**2))[..., 0]

    features = jnp.stack([x, x**2, mean(3), mean(7)], axis=3)
    return (features @ p["c"] + p["d"]).reshape(len(x), -1, L)


def first_weights(rng, fixed_features):
    def normal(*shape):
        size = np.sqrt(np.prod(shape[:-1]))
        return jnp.asarray(rng.normal(size=shape) / size, jnp.float32)

    if fixed_features:
        return {"c": normal(4, L), "d": jnp.zeros(L)}
    sizes = {"a": normal(5, 5, 1, CHANNELS), "c": normal(5, 5, CHANNELS, L)}
    return {**sizes, "b": jnp.zeros(CHANNELS), "d": jnp.zeros(L)}


def train(costs, structured, x, y, rng):
    """The parameters, by Adam on two images at a time."""
    loss = StructuredLoss([model()] * len(x), "hinge", tol=1e-3)

    def objective(p, ids):
        found = costs(p, x[ids])
        if structured:
            return loss(found, y[ids], ids) / SIDE**2
        picked = jnp.take_along_axis(jax.nn.log_softmax(-found), y[ids][..., None], 2)
        return -picked.mean()

    slope = jax.jit(jax.grad(objective))
    p = first_weights(rng, costs is fixed)
    mean = square = jax.tree.map(jnp.zeros_like, p)
    for step in range(1, EPOCHS * len(x) // 2 + 1):
        if step % (len(x) // 2) == 1:
            batches = iter(rng.permutation(np.arange(len(x)).reshape(-1, 2)))
        g = slope(p, next(batches))
        mean = jax.tree.map(lambda m, d: 0.9 * m + 0.1 * d, mean, g)
        square = jax.tree.map(lambda s, d: 0.99 * s + 0.01 * d * d, square, g)
        rate = 0.02 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        p = jax.tree.map(
            lambda a, m, s, rate=rate: a - rate * m / (jnp.sqrt(s) + 1e-8), p, mean, square
        )
    return p


def images(n, rng):
    x, y = zip(*(shapes(rng) for _ in range(n)))
    return jnp.asarray(np.stack(x), jnp.float32), jnp.asarray(np.stack(y).reshape(n, -1))


if __name__ == "__main__":
    runs = {
        "network alone": (network, False),
        "fixed features, cliques": (fixed, True),
        "network under cliques": (network, True),
    }
    errors = {name: [] for name in runs}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        x, y = images(IMAGES, rng)
        tested, truth = images(8, rng)
        answers = {}
        for name, (costs, structured) in runs.items():
            p = train(costs, structured, x, y, np.random.default_rng(seed + 100))
            found = costs(p, tested)
            if structured:
                answers[name] = StructuredLayer(model(), "labels")(found)
            else:
                answers[name] = found.argmin(axis=2)
            errors[name].append(100 * float((answers[name] != truth).mean()))
    for name, rates in errors.items():
        print(f"{name:24} {np.mean(rates):5.1f} % wrong pixels (std {np.std(rates):.1f})")
    shown = [("image", tested[0]), ("truth", truth[0]), *((n, a[0]) for n, a in answers.items())]
    figure, axes = plt.subplots(1, len(shown), figsize=(3 * len(shown), 3.4))
    for ax, (name, picture) in zip(axes, shown):
        ax.imshow(np.reshape(picture, (SIDE, SIDE)), cmap="gray" if name == "image" else None)
        ax.set_title(name if name not in errors else f"{name}: {np.mean(errors[name]):.1f} %")
        ax.axis("off")
    figure.tight_layout()
