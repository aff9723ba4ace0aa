"""A network under a chain: words from images of letters.

A small network (one hidden layer, JAX) gives each letter of a word 26 costs; a chain with a learnt
table of transitions sits on top. Three models see the same words: the network alone, which reads
every letter on its own; a chain over linear costs of the pixels; and the network under the chain,
trained as one by the negative log-likelihood of the words (`gmlearn.layers.jax.StructuredLoss`).

With the folder of the OCR letters as an argument (a file `letters.npz`: pixels, labels, lengths,
folds) it trains on fold 1 (704 words) and tests on fold 2; without, on generated words: a Markov
chain of letters, each drawn dark on light or light on dark, so that no linear cost of the pixels
tells them apart. What to see: the network tells single letters apart, the chain brings in their
neighbours; together they beat both. Rates are means over seeds of the
network's first weights and of the order of the words, with their standard deviation.

    python examples/plot_network_letters.py [--quick] [FOLDER]
"""

import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gmlearn as gm
from gmlearn.layers.jax import StructuredLayer, StructuredLoss

QUICK = "--quick" in sys.argv
FOLDER = next((a for a in sys.argv[1:] if not a.startswith("-")), None)
SEEDS, EPOCHS, BATCH, HIDDEN = (1, 3, 16, 32) if QUICK else (3, 25, 64, 128)
L = 26


def generated(n, rng):
    """Words as (pixels (V, 128), labels (V,)): dark on light or light on dark, 35 % flipped."""
    world = np.random.default_rng(0)
    stencils = world.random((L, 1, 128)) < 0.5
    stencils = np.concatenate([stencils, ~stencils], axis=1)
    moves = world.dirichlet(np.full(L, 0.08), L)
    words = []
    for length in rng.integers(4, 10, n):
        labels = [int(rng.integers(L))]
        while len(labels) < length:
            labels.append(int(rng.choice(L, p=moves[labels[-1]])))
        ink = stencils[labels, rng.integers(2, size=length)]
        words.append((ink ^ (rng.random(ink.shape) < 0.35), np.array(labels)))
    return words


def real(folder, fold):
    """The words of one fold of the OCR letters."""
    data = np.load(Path(folder) / "letters.npz")
    pixels, ends = np.unpackbits(data["pixels"], axis=1), np.cumsum(data["lengths"])[:-1]
    words = zip(np.split(pixels, ends), np.split(data["labels"].astype(int), ends), data["folds"])
    return [(x, y) for x, y, own in words if own == fold]


def padded(words):
    """Pixels (B, V, 128), labels (B, V), and which variables are there (B, V)."""
    longest = max(len(y) for _, y in words)
    x = np.zeros((len(words), longest, 128), np.float32)
    y = np.zeros((len(words), longest), int)
    for k, (pixels, labels) in enumerate(words):
        x[k, : len(labels)], y[k, : len(labels)] = pixels, labels
    return x, y, np.arange(longest) < np.array([[len(y)] for _, y in words])


def chain(n):
    crf = gm.CRF(n, L)
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    crf.add(gm.Pairwise(edges, weight="pair", symmetric=False))
    return crf


def first_weights(rng, hidden):
    """Of the network; without a hidden layer, of a linear map."""
    sizes = [128, hidden, L] if hidden else [128, L]
    layers = [
        {"w": jnp.asarray(rng.normal(size=(a, b)) / np.sqrt(a), jnp.float32), "b": jnp.zeros(b)}
        for a, b in pairwise(sizes)
    ]
    return {"layers": layers, "pair": jnp.zeros((L, L))}


def network(p, x):
    """Costs (B, V, 26) of all letters."""
    for layer in p["layers"][:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ p["layers"][-1]["w"] + p["layers"][-1]["b"]


def train(words, tested, structured, hidden, seed):
    """Test error after each epoch, by Adam on batches of words."""
    rng = np.random.default_rng(seed)
    x, y, there = padded(words)
    models = [chain(len(labels)) for _, labels in words]
    loss = StructuredLoss(models, "likelihood")
    per_letter = float(there.sum() / len(words))

    def objective(p, x, y, there, ids):
        costs = network(p, x)
        if structured:
            return loss(costs, y, ids, {"pair": p["pair"]}) / per_letter
        picked = jnp.take_along_axis(jax.nn.log_softmax(-costs), y[..., None], 2)[..., 0]
        return -(picked * there).sum() / there.sum()

    slope = jax.jit(jax.grad(objective))
    p = first_weights(rng, hidden)
    mean = square = jax.tree.map(jnp.zeros_like, p)
    step, errors = 0, []
    # the same batches in every epoch, so that each is joined and decomposed once
    batches = np.arange(len(words) // BATCH * BATCH).reshape(-1, BATCH)
    for _ in range(EPOCHS):
        for ids in rng.permutation(batches):
            step += 1
            g = slope(p, x[ids], y[ids], there[ids], ids)
            mean = jax.tree.map(lambda m, d: 0.9 * m + 0.1 * d, mean, g)
            square = jax.tree.map(lambda s, d: 0.99 * s + 0.01 * d * d, square, g)
            rate = 0.01 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
            p = jax.tree.map(
                lambda a, m, s, rate=rate: a - rate * m / (jnp.sqrt(s) + 1e-8), p, mean, square
            )
        errors.append(error(p, tested, structured))
    return errors


def error(p, words, structured):
    """Share of wrong letters."""
    x, y, there = padded(words)
    costs = network(p, x)
    if structured:
        layer = StructuredLayer([chain(len(labels)) for _, labels in words], "labels")
        found = layer(costs, weights={"pair": p["pair"]})
    else:
        found = costs.argmin(axis=2)
    return float((np.asarray(found) != y)[there].mean())


if __name__ == "__main__":
    data_rng = np.random.default_rng(1)
    if FOLDER is None:
        learnt, held_out = generated(64 if QUICK else 512, data_rng), generated(200, data_rng)
    else:
        learnt, held_out = real(FOLDER, 1), real(FOLDER, 2)
    runs = {
        "network alone": partial(train, structured=False, hidden=HIDDEN),
        "linear costs, chain": partial(train, structured=True, hidden=0),
        "network under a chain": partial(train, structured=True, hidden=HIDDEN),
    }
    for name, run in runs.items():
        curves = 100 * np.array([run(learnt, held_out, seed=s) for s in range(SEEDS)])
        print(f"{name:22} {curves[:, -1].mean():5.1f} % wrong (std {curves[:, -1].std():.1f})")
        line = plt.plot(np.arange(1, EPOCHS + 1), curves.mean(axis=0), label=name)[0]
        low, high = curves.min(axis=0), curves.max(axis=0)
        plt.fill_between(np.arange(1, EPOCHS + 1), low, high, color=line.get_color(), alpha=0.2)
    plt.xlabel("epoch")
    plt.ylabel("wrong letters on held-out words, %")
    plt.ylim(0, None)
    plt.legend()
    plt.title("OCR letters" if FOLDER else "generated words")
