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

    n_clusters = len(model.cluster_centers_)
    with gm.plot.styled() as plt:
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


def plot_graphs(graphs, ax=None):
    """One panel a graph, drawn so that its edges have the lengths they state, as far as a plane
    allows (least squares on the shortest paths); nodes with two numbers lie where those say.
    """

    with gm.plot.styled() as plt:
        if ax is None:
            _, ax = plt.subplots(1, len(graphs), figsize=(2.2 * len(graphs), 2.4), squeeze=False)
        axes = np.ravel(ax)
        for a, (panel, graph) in enumerate(zip(axes, graphs)):
            points = graph.nodes if graph.nodes.shape[1] == 2 else _layout(graph)
            for ends in graph.edges:
                panel.plot(*points[ends].T, color="0.6", linewidth=1, zorder=0)
            panel.plot(*points.T, "o", color=gm.plot.PALETTE[a % 6], markersize=4)
            panel.set(title=str(a), aspect="equal", xticks=[], yticks=[])
            panel.spines[:].set_visible(False)
    return axes


def _layout(graph) -> np.ndarray:
    """Points (J, 2) by classical scaling of the shortest paths, then least squares on the edges."""
    from scipy.optimize import minimize
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    n = len(graph.nodes)
    lengths = graph.lengths[:, 0] if graph.lengths.shape[1] else np.ones(len(graph.edges))
    weights = coo_array((np.maximum(lengths, 1e-9), tuple(graph.edges.T)), shape=(n, n))
    paths = shortest_path(weights.tocsr(), directed=False)
    far = paths[np.isfinite(paths)].max(initial=1.0)
    squares = np.where(np.isfinite(paths), paths, 1.5 * far) ** 2
    centring = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ squares @ centring)
    start = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))
    first, second = graph.edges.T

    def stress(flat):
        points = flat.reshape(n, 2)
        between = points[first] - points[second]
        distance = np.maximum(np.linalg.norm(between, axis=1), 1e-12)
        pull = (2.0 * (distance - lengths) / distance)[:, None] * between
        slope = np.zeros((n, 2))
        np.add.at(slope, first, pull)
        np.add.at(slope, second, -pull)
        return ((distance - lengths) ** 2).sum(), slope.ravel()

    return minimize(stress, start.ravel(), jac=True, method="L-BFGS-B").x.reshape(n, 2)


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
