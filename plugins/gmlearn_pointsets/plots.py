"""Pictures: centres with their aligned members, and a match between two sets."""

from __future__ import annotations

import numpy as np

import gmlearn as gm


def plot_centres(model, ax=None, max_columns: int = 5, rotations=None):
    """One panel a cluster: the members' points in the frame of the centre, and the centre on top
    (first two coordinates).

    Parameters
    ----------
    model : a fitted `PointSetClustering`.
    ax : matplotlib axes, at least one a cluster; None: a new figure.
    rotations : float (A, D, D), turns each panel, for a centre's own frame is arbitrary.

    Returns
    -------
    axes : numpy array of axes.
    """
    import matplotlib
    import matplotlib.pyplot as plt

    n_clusters = len(model.cluster_centers_)
    with matplotlib.rc_context(gm.plot.style()):
        axes = ax
        if axes is None:
            columns = min(max_columns, n_clusters)
            rows = -(-n_clusters // columns)
            _, axes = plt.subplots(
                rows,
                columns,
                figsize=(2.1 * columns, 2.2 * rows),
                squeeze=False,
                sharex=True,
                sharey=True,
            )
        axes = np.ravel(axes)
        if len(axes) < n_clusters:
            raise ValueError(f"ax: expected at least {n_clusters}, one a cluster, got {len(axes)}")
        for a, (ax, centre) in enumerate(zip(axes, model.cluster_centers_)):
            turn = np.eye(centre.shape[1]) if rotations is None else rotations[a]
            centre = centre @ turn.T
            members = [
                points @ turn.T
                for points, label in zip(model.aligned_, model.labels_)
                if label == a
            ]
            colour = gm.plot.PALETTE[a % 6]
            for points in members:
                ax.plot(
                    points[:, 0],
                    points[:, 1],
                    ".",
                    color=colour,
                    alpha=0.5,
                    markersize=5,
                    markeredgewidth=0,
                )
            ax.plot(
                centre[:, 0],
                centre[:, 1],
                "o",
                color="black",
                markersize=3.5,
                markerfacecolor="none",
            )
            ax.set_title(f"{a}: {len(members)} image{'s' * (len(members) != 1)}")
            ax.set(aspect="equal", xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
        for ax in axes[n_clusters:]:
            ax.set_visible(False)
    return axes


def plot_match(X, Y, match, ax=None):
    """Set X, set Y moved onto it, and a line for every matched pair (first two coordinates)."""
    ax = gm.plot.axes(ax, figsize=(3.6, 3.6))
    X, Y = np.asarray(X), np.asarray(Y)
    moved = match.shift + match.scale * Y @ match.rotation.T
    for j, k in enumerate(match.partner):
        if k >= 0:
            ax.plot(*np.array([X[j, :2], moved[k, :2]]).T, color="0.6", linewidth=1, zorder=0)
    ax.plot(X[:, 0], X[:, 1], "o", color=gm.plot.PALETTE[0], label="X")
    ax.plot(moved[:, 0], moved[:, 1], "x", color=gm.plot.PALETTE[3], label="Y moved onto X")
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.legend(loc="upper left", bbox_to_anchor=(0, -0.02), ncols=2)
    return ax
