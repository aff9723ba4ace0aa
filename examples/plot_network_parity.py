"""Your own slave under a network: words of a code.

The README's parity potential, with its slave of a few lines, between a linear network and its
labels: two words of the Hamming code, seven bits each, in which three sets of four bits have an
even number of ones. Nothing but the slave knows about parity; the layer brings the gradients of its
minimisers to the network. What to see: how many bits are wrong on held-out words, for the network
alone and for the same network trained under the slave, which corrects what single bits got wrong.
"""

import sys

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import gmlearn as gm
from gmlearn.layers.jax import StructuredLayer, StructuredLoss


class Parity(gm.Block):
    name = "example_parity"

    def energy(self, x, w):
        return 4.0 * (x.sum(axis=1) % 2)


class ParitySlave(gm.SlaveSolver):
    name = "example_parity"

    def refuses(self, block):
        return None if isinstance(block, Parity) else "not a parity block"

    def minimise(self, block, theta, w):
        labels = theta.argmin(axis=2)
        low = theta.min(axis=2)
        price = theta.max(axis=2) - np.where(np.isinf(low), 0, low)  # of flipping one
        odd, clique, cheapest = labels.sum(axis=1) % 2, np.arange(len(block)), price.argmin(axis=1)
        labels[clique, cheapest] ^= (odd == 1) & (price[clique, cheapest] < 4.0)
        chosen = theta[clique[:, None], np.arange(block.arity), labels]
        return labels, chosen.sum(axis=1) + block.energy(labels, w)

    def examples(self, rng):
        return [(Parity([[0, 1, 2], [1, 2, 3]]).bind(np.full(4, 2)), {})]


gm.register(Parity)
gm.register(ParitySlave())
QUICK = "--quick" in sys.argv
SEEDS, STEPS, EVERY = (1, 10, 5) if QUICK else (3, 60, 10)
CHECKS = np.array([[0, 1, 2, 4], [0, 1, 3, 5], [0, 2, 3, 6]])  # the last bit makes them even
PARTS = np.concatenate([CHECKS, CHECKS + 7])
BITS = 14


def words(n, rng):
    """Bits (n, 14) of words of the code, seen through a random mixture and noise."""
    bits = rng.integers(0, 2, (n, BITS))
    for part in PARTS:
        bits[:, part[-1]] = bits[:, part[:-1]].sum(axis=1) % 2
    mixture = np.random.default_rng(0).normal(size=(BITS, BITS)) / 3 + np.eye(BITS)
    seen = (2 * bits - 1) @ mixture + 0.5 * rng.normal(size=bits.shape)
    return jnp.asarray(seen), jnp.asarray(bits)


def errors(crf, seed):
    """Wrong bits, in per cent, on held-out words while the network is trained."""
    rng = np.random.default_rng(seed)
    (x, y), (tested, truth) = words(40 if QUICK else 100, rng), words(100, rng)
    loss, layer = StructuredLoss(crf), StructuredLayer(crf, "labels")

    def costs(w, x):
        return jnp.stack([jnp.zeros(x.shape), -(x @ w)], axis=2)

    slope = jax.jit(jax.grad(lambda w: loss(costs(w, x), y)))
    w, found = jnp.zeros((BITS, BITS)), []
    for step in range(1, STEPS + 1):
        w = w - 0.05 * slope(w)
        if step % EVERY == 0:
            found.append(100 * float((layer(costs(w, tested)) != truth).mean()))
    return found


if __name__ == "__main__":
    gm.testing.check(ParitySlave(), layer=True)
    alone, even = gm.CRF(BITS, 2), gm.CRF(BITS, 2)
    even.add("example_parity", variables=PARTS)
    for name, crf in (("network alone", alone), ("network under parity", even)):
        curves = np.array([errors(crf, seed) for seed in range(SEEDS)])
        last = curves[:, -1]
        print(f"{name:22} {last.mean():5.1f} % wrong bits (std {last.std():.1f})")
        steps = EVERY * np.arange(1, curves.shape[1] + 1)
        line = plt.plot(steps, curves.mean(axis=0), marker="o", label=name)[0]
        low, high = curves.min(axis=0), curves.max(axis=0)
        plt.fill_between(steps, low, high, color=line.get_color(), alpha=0.2)
    plt.xlabel("steps")
    plt.ylabel("wrong bits on held-out words, %")
    plt.legend()
