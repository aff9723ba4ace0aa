"""Tiny random training problems of every kind, and the enumeration that is their specification."""

from __future__ import annotations

import itertools

import gmlearn_highorder as h
import numpy as np

import gmlearn as gm
from gmlearn.testing.brute_force import energy_table

KINDS = ("tree", "loopy", "table", "hard", "pn_potts", "cardinality")


class CountLoss(gm.Loss):
    """Delta = scale * |#(x = label) - #(truth = label)| over the observed variables: one clique
    that holds them all.
    """

    name = "count"

    def __init__(self, label=1, scale=1.0):
        self.label, self.scale = label, scale

    def value(self, crf, x, truth, observed):
        return self.scale * abs(
            int((x[observed] == self.label).sum()) - int((truth[observed] == self.label).sum())
        )

    def blocks(self, crf, truth, observed):
        members = np.flatnonzero(observed)
        if len(members) == 0:
            return []
        counts = np.arange(len(members) + 1)
        costs = -self.scale * np.abs(counts - int((truth[members] == self.label).sum()))
        return [h.Cardinality([members], costs, label=self.label)]


def random_loss(rng, n_labels):
    """One of the losses, with random parameters."""
    return [
        gm.Hamming(),
        gm.Hamming(0.5),
        gm.WeightedHamming(rng.random(n_labels) + 0.1),
        gm.LabelDistance(1.5, 2.0),
        CountLoss(),
        gm.NoLoss(),
    ][int(rng.integers(6))]


def some_edges(rng, n, m):
    pairs = np.array(list(itertools.combinations(range(n), 2)))
    return pairs[np.sort(rng.permutation(len(pairs))[:m])]


def random_crf(rng, kind, n_vars, n_labels):
    """A model with learnt unary costs and edges, and the further block that `kind` names."""
    crf = gm.CRF(n_vars, n_labels).add_unary(0.3 * rng.normal(size=(n_vars, n_labels)))
    crf.add(gm.Unary(rng.normal(size=(n_vars, 2)), "u"))
    edges = (
        np.array([[i, i + 1] for i in range(n_vars - 1)])
        if kind == "tree"
        else some_edges(rng, n_vars, n_vars)
    )
    half = len(edges) // 2
    crf.add(gm.LearntTable(edges[:half], "pair"))
    crf.add(gm.Potts(edges[half:], rng.normal(size=len(edges) - half), "smooth"))
    cliques = np.stack([rng.choice(n_vars, 3, replace=False) for _ in range(2)])
    if kind == "table":
        crf.add(gm.Table(cliques, rng.normal(size=(2,) + (n_labels,) * 3)))
    if kind == "hard":
        forbidden = np.where(rng.random((2,) + (n_labels,) * 3) < 0.15, np.inf, 0.0)
        forbidden[:, 0, 0, 0] = 0.0  # all zeros stay feasible
        crf.add(gm.Table(cliques, forbidden))
    if kind == "pn_potts":
        crf.add(
            "pn_potts",
            cliques=cliques,
            features=rng.normal(size=(2, n_labels, 2)),
            weight="pn",
            weight_max="top",
            beta_max=rng.normal(size=2),
        )
    if kind == "cardinality":
        crf.add(
            "cardinality",
            cliques=[np.arange(n_vars), cliques[0]],
            weight="count",
            label=int(rng.integers(n_labels)),
        )
    return crf


def random_sample(rng, kind, n_vars=4, n_labels=2, latent=False, weight=1.0):
    """A sample whose truth is feasible; with `latent`, some labels are hidden."""
    crf = random_crf(rng, kind, n_vars, n_labels)
    zero = {name: np.zeros(shape) for name, shape in crf.layout.shapes.items()}
    feasible = np.argwhere(np.isfinite(energy_table(crf, zero)))
    truth = feasible[int(rng.integers(len(feasible)))]
    hidden = None
    if latent:
        hidden = rng.random(n_vars) < 0.5
        hidden[int(rng.integers(n_vars))] = False
    return gm.Sample(crf, truth, hidden=hidden, weight=weight)


def random_problem(rng, kind, n_samples=3, n_labels=2, latent=False, **options):
    """Samples (of equal segments, with models and weights of their own) and the objective over
    them.
    """
    samples = [
        random_sample(rng, kind, 4, n_labels, latent, float(rng.random() + 0.5))
        for _ in range(n_samples)
    ]
    options.setdefault("loss", random_loss(rng, n_labels))
    options.setdefault("regularizer", gm.L2(float(rng.random() + 0.2)))
    return samples, options


def objective_of(samples, options):
    return gm.build_objective(samples, gm.TrainingOptions(**options))


def random_point(rng, objective, scale=1.0):
    """Weights, and zero-sum multipliers of every sample."""
    w = scale * rng.normal(size=objective.layout.size)
    return w, [
        b.dual.centred(scale * rng.normal(size=len(b.dual.coords))) for b in objective.batches
    ]


def true_hinge(batch, w):
    """(hinge, Delta of the MAP labelling) of a batch of one sample, by enumeration."""
    (sample,), (loss,) = batch.samples, batch.losses
    named = batch.layout.split(w)
    energy = energy_table(sample.crf, named)
    delta = np.array(
        [
            loss.value(sample.crf, np.array(x), sample.labels, sample.observed)
            for x in np.ndindex(energy.shape)
        ]
    ).reshape(energy.shape)
    best = np.unravel_index(int(energy.argmin()), energy.shape)
    return float(energy[tuple(batch.truth)] - (energy - delta).min()), float(delta[best])


def chain_samples(seed=0, n=5, length=6, n_labels=3):
    """Chains whose labels are easy to learn; the problem of checkpoints, threads and callbacks."""
    rng, samples = np.random.default_rng(seed), []
    edges = [[i, i + 1] for i in range(length - 1)]
    for _ in range(n):
        truth = np.repeat(rng.integers(0, n_labels, length // 2), 2)
        crf = gm.CRF(length, n_labels)
        crf.add(
            gm.Unary(
                (truth[:, None] == np.arange(n_labels)) + rng.normal(size=(length, n_labels)), "u"
            )
        )
        crf.add(gm.LearntTable(edges, "pair"))
        samples.append(gm.Sample(crf, truth, weight=1.0 / n))
    return samples


def ring_samples(seed=0, n=4, n_labels=3, hidden=False):
    """The same on rings, which need several slaves; with `hidden`, two labels of each are not
    known.
    """
    rng, samples = np.random.default_rng(seed), []
    for _ in range(n):
        truth = np.repeat(rng.integers(0, n_labels, 3), 2)
        crf = gm.CRF(6, n_labels)
        crf.add(
            gm.Unary((truth[:, None] == np.arange(n_labels)) + rng.normal(size=(6, n_labels)), "u")
        )
        crf.add(gm.LearntTable([[i, (i + 1) % 6] for i in range(6)], "pair"))
        mask = np.isin(np.arange(6), rng.choice(6, 2, replace=False)) if hidden else None
        samples.append(gm.Sample(crf, truth, hidden=mask, weight=1.0 / n))
    return samples
