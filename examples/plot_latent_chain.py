"""Hidden states that matter: a chain whose labels have two hidden sub-states each.

A chain of labels, 0 or 1, is seen through two inputs. Each label is made in one of two ways, a
hidden sub-state that nobody marked: label 0 at opposite corners of the input plane, label 1 at the
other two. No linear cost of the inputs tells the labels apart, so a chain of labels alone can do
little more than follow its neighbours. The same chain with a hidden variable for each label, whose
four states have linear costs of their own, learns the corners by itself: the trainer alternates
between completing the hidden states (the cheapest ones with the labels clamped) and a few passes
over the slaves.

What to see: held-out errors fall from more than a third to some six per cent, and the learnt states
sit in the corners. The objective with hidden variables is not convex, so training starts from a few
random weights and keeps the lowest objective; it never uses the held-out labels, nor the true
sub-states.
"""

import sys

import matplotlib
import numpy as np

import gmlearn as gm

QUICK = "--quick" in sys.argv
LENGTH, CHAINS, STARTS, NOISE = 40, 10 if QUICK else 30, 2 if QUICK else 4, 0.65
CORNERS = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]], float)  # two for each label
STAY = 0.7


def sequence(rng):
    """Inputs (LENGTH, 2) and labels (LENGTH,): a Markov chain over four sub-states, two of each
    label.
    """
    states = [int(rng.integers(4))]
    while len(states) < LENGTH:
        states.append(states[-1] if rng.random() < STAY else int(rng.integers(4)))
    return CORNERS[states] + NOISE * rng.normal(size=(LENGTH, 2)), np.array(states) // 2


def plain(inputs, labels):
    """Labels alone: linear costs of the inputs, and a learnt table between neighbours."""
    crf = gm.CRF(LENGTH, 2)
    crf.add(gm.Unary(np.column_stack([inputs, np.ones(LENGTH)]), "input"))
    crf.add(gm.LearntTable([[i, i + 1] for i in range(LENGTH - 1)], "pair"))
    return gm.Sample(crf, labels, weight=1.0 / CHAINS)


def latent(inputs, labels):
    """Variables 0..LENGTH-1 are the labels, the next LENGTH their hidden states: costs and
    neighbours are between those.
    """
    crf = gm.CRF([2] * LENGTH + [4] * LENGTH)
    hidden = np.arange(LENGTH, 2 * LENGTH)
    crf.add(gm.Unary(np.column_stack([inputs, np.ones(LENGTH)]), "input", variables=hidden))
    crf.add(gm.LearntTable(np.column_stack([hidden[:-1], hidden[1:]]), "pair"))
    # two states belong to each label
    allowed = np.where(np.arange(2)[:, None] == np.arange(4) // 2, 0.0, np.inf)
    crf.add(gm.Pairwise(np.column_stack([np.arange(LENGTH), hidden]), table=allowed))
    labels = np.concatenate([labels, np.zeros(LENGTH, int)])
    return gm.Sample(crf, labels, hidden=np.arange(2 * LENGTH) >= LENGTH, weight=1.0 / CHAINS)


def train_latent(samples, rng):
    """The lowest objective of a few random starts."""
    models = []
    for _ in range(STARTS):
        start = {"input": rng.normal(size=(4, 3)), "pair": np.zeros(10)}
        models.append(
            gm.train(
                samples,
                regularizer=gm.L2(0.1),
                decomposition="trees",
                weights=start,
                completion_every=3,
                max_iter=45,
            )
        )
        print(f"  start: objective {models[-1].objective:.3f}, {len(models[-1].history)} passes")
    return min(models, key=lambda m: m.objective)


rng = np.random.default_rng(0)
train = [sequence(rng) for _ in range(CHAINS)]
held_out = [sequence(rng) for _ in range(CHAINS)]
without = gm.train([plain(*s) for s in train], regularizer=gm.L2(0.1), decomposition="trees")
model = train_latent([latent(*s) for s in train], rng)

found = {
    "without": [without.predict(plain(*s).crf).labels for s in held_out],
    "with": [model.predict(latent(*s).crf).labels for s in held_out],
}
errors = {
    name: np.mean([np.mean(x[:LENGTH] != labels) for x, (_, labels) in zip(answers, held_out)])
    for name, answers in found.items()
}
print(
    f"held-out error without hidden states {errors['without']:.1%}, with them {errors['with']:.1%}"
)

with gm.plot.styled() as plt:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.5, 3.8))
    points = np.concatenate([inputs for inputs, _ in held_out])
    labels, states = (
        np.concatenate([s[1] for s in held_out]),
        np.concatenate([x[LENGTH:] for x in found["with"]]),
    )
    for panel, groups, names, title in (
        (left, labels, ["label 0", "label 1"], "what is given: inputs and labels"),
        (middle, states, [f"state {i} (label {i // 2})" for i in range(4)], "hidden states found"),
    ):
        for i, name in enumerate(names):
            panel.scatter(
                *points[groups == i].T, s=7, alpha=0.6, color=gm.plot.PALETTE[i], label=name
            )
        panel.set(
            title=title,
            xlabel="input 1",
            ylabel="input 2",
            aspect="equal",
            xlim=(-3.3, 3.3),
            ylim=(-3.3, 4.4),
        )
        panel.legend(ncols=2, loc="upper center", markerscale=2, fontsize=8, handletextpad=0.2)
    strips = np.stack([held_out[0][1], found["without"][0], found["with"][0][:LENGTH]])
    right.imshow(
        strips,
        aspect="auto",
        interpolation="nearest",
        cmap=matplotlib.colors.ListedColormap(gm.plot.PALETTE[:2]),
    )
    names = ["truth", *(f"{name}\n{error:.0%} wrong" for name, error in errors.items())]
    right.set(
        yticks=range(3), yticklabels=names, xlabel="place in the chain", title="a held-out chain"
    )
    right.hlines([0.5, 1.5], -0.5, LENGTH - 0.5, color="white", linewidth=4)
    right.grid(False)
    figure.savefig("plot_latent_chain.png", dpi=120, bbox_inches="tight")
