"""Shapes in any position and order, grouped without saying how many groups there are.

Six outlines are drawn as point sets, each several times: turned, shifted, shaken, their points in
random order. The matching distance of all pairs is one call; exemplar clustering takes the matrix
and finds exemplars and their number. What to see: every row holds one shape, and the picture on its
left is the exemplar that stands for it.
"""

import numpy as np
from gmlearn_clustering import ExemplarClustering
from gmlearn_pointsets import point_set_distance
from sklearn.metrics import adjusted_rand_score

import gmlearn as gm


def outline(corners, n_points=24):
    """Points spread evenly along a closed polygon."""
    corners = np.vstack([corners, corners[:1]]).astype(float)
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
    at = np.linspace(0.0, along[-1], n_points, endpoint=False)
    return np.stack([np.interp(at, along, corners[:, d]) for d in range(2)], axis=1)


def star(n_tips, inner):
    angle = np.arange(2 * n_tips) * np.pi / n_tips
    radius = np.where(np.arange(2 * n_tips) % 2, inner, 1.0)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


SHAPES = {
    "square": [[0, 0], [1.5, 0], [1.5, 1.5], [0, 1.5]],
    "bar": [[0, 0], [2.4, 0], [2.4, 0.5], [0, 0.5]],
    "corner": [[0, 0], [1.7, 0], [1.7, 0.5], [0.5, 0.5], [0.5, 1.7], [0, 1.7]],
    "star": star(5, 0.4),
    "triangle": [[0, 0], [2, 0], [1, 1.7]],
    "arrow": [[0, 0.4], [1.2, 0.4], [1.2, 0], [2, 0.7], [1.2, 1.4], [1.2, 1.0], [0, 1.0]],
}

rng = np.random.default_rng(0)
images, truth = [], []
for label, corners in enumerate(SHAPES.values()):
    for _ in range(7):
        points = outline(np.asarray(corners)) + 0.05 * rng.normal(size=(24, 2))
        angle = rng.uniform(0, 2 * np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        images.append(rng.permutation(points) @ turn.T + rng.normal(size=2))
        truth.append(label)

match = point_set_distance(images, method="hard")
model = ExemplarClustering(penalty=("quantile", 0.5), metric="precomputed").fit(match.distance)
exemplars = model.cluster_centers_indices_
print(
    f"{len(exemplars)} clusters found for {len(SHAPES)} shapes; "
    f"adjusted Rand index {adjusted_rand_score(truth, model.labels_):.3f}"
)

with gm.plot.styled() as plt:
    fig, axes = plt.subplots(len(exemplars), 8, figsize=(8, 1.0 * len(exemplars)), squeeze=False)
    for row, exemplar in enumerate(exemplars):
        members = np.flatnonzero(model.labels_ == model.labels_[exemplar])
        for ax, index in zip(axes[row], [exemplar, *members]):
            points = images[index] - images[index].mean(0)
            colour = "black" if ax is axes[row, 0] else gm.plot.PALETTE[row % 6]
            ax.plot(points[:, 0], points[:, 1], ".", color=colour, markersize=3.5)
        for ax in axes[row]:
            ax.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7), aspect="equal")
            ax.axis("off")
    axes[0, 0].set_title("exemplar", fontsize=9, loc="center")
    axes[0, 1].set_title("its members", fontsize=9)
plt.show()
