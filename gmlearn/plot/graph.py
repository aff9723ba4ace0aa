"""The drawing of a factor graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.model.graph import to_networkx
from gmlearn.model.grid import find_grid
from gmlearn.plot.style import PALETTE, axes, styled

#: nodes (variables and cliques) that a reader can still tell apart
MAX_NODES = 400
MAX_VARIABLES = 200
#: nodes up to which every variable is numbered
FEW = 120


def plot_factor_graph(crf: CRF, ax: Any = None, weights: Any = None) -> Any:
    """Draw variables as circles and cliques as squares, coloured by the kind of potential.

    Parameters
    ----------
    crf : a model of at most 200 variables and 400 nodes in all.
    ax : matplotlib axes; a new one by default.
    weights : if given, a clique's square is larger the more its table varies (the range of its
        finite entries).

    Returns
    -------
    The axes.
    """
    import networkx

    n_cliques = sum(len(block) for block in crf.clique_blocks)
    if crf.n_vars > MAX_VARIABLES or crf.n_vars + n_cliques > MAX_NODES:
        raise ValueError(
            f"crf: {crf.n_vars} variables and {n_cliques} cliques are too many for a readable "
            f"drawing (at most "
            f"{MAX_VARIABLES} variables, {MAX_NODES} nodes in all); draw a smaller model of the "
            f"same kind, or take "
            f"a part of crf.to_networkx() and draw it with networkx"
        )
    graph = to_networkx(crf, weights, max_table=0 if weights is None else 4096)
    # learnt unary terms belong to their variable and would only be clutter
    graph.remove_nodes_from([n for n, kind in graph.nodes(data="potential") if kind == "unary"])
    places = _layout(crf, graph)
    with styled():
        ax = axes(ax, figsize=(6.4, 4.8))
        size = float(np.clip(9000 / max(1, len(graph)), 22, 340))
        networkx.draw_networkx_edges(graph, places, ax=ax, edge_color="#999999", width=0.9)
        _draw_cliques(graph, places, ax, 0.45 * size)
        variables = [n for n in graph if n[0] == "v"]
        networkx.draw_networkx_nodes(
            graph,
            places,
            nodelist=variables,
            ax=ax,
            node_size=size,
            node_color="white",
            edgecolors="black",
            linewidths=1.0,
            label="variable",
        )
        if len(graph) <= FEW:
            networkx.draw_networkx_labels(
                graph, places, {n: str(n[1]) for n in variables}, font_size=7, ax=ax
            )
        ax.set_axis_off()
        _legend(ax)
    return ax


def _draw_cliques(graph: Any, places: dict, ax: Any, size: float) -> None:
    """Squares, one colour for each kind of potential."""
    import networkx

    kinds = list(
        dict.fromkeys(kind for _, kind in graph.nodes(data="potential") if kind is not None)
    )
    reach = {
        n: _variation(data["table"])
        for n, data in graph.nodes(data=True)
        if n[0] == "f" and "table" in data
    }
    largest = max(reach.values(), default=0.0) or 1.0
    for i, kind in enumerate(kinds):
        cliques = [n for n, k in graph.nodes(data="potential") if k == kind]
        sizes = [size * (0.4 + 1.2 * reach[n] / largest) if n in reach else size for n in cliques]
        networkx.draw_networkx_nodes(
            graph,
            places,
            nodelist=cliques,
            ax=ax,
            node_shape="s",
            node_size=sizes,
            node_color=PALETTE[i % len(PALETTE)],
            label=kind,
        )


def _legend(ax: Any) -> None:
    """Outside the drawing, with marks of one size."""
    legend = ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    for handle in legend.legend_handles:
        handle.set_sizes([50.0])


def _variation(table: np.ndarray) -> float:
    finite = table[np.isfinite(table)]
    return float(np.ptp(finite)) if finite.size else 0.0


def _layout(crf: CRF, graph: Any) -> dict:
    """Grids as grids, with each clique among its variables; anything else by springs, part by
    part.
    """
    shapes = [
        find_grid(b.variables, crf.n_vars)
        for b in crf.clique_blocks
        if b.arity == 2 and hasattr(b, "variables")
    ]
    shape = next((s for s in shapes if s is not None and min(s) > 1), None)
    return _pack(graph) if shape is None else _grid_places(crf, graph, shape)


def _grid_places(crf: CRF, graph: Any, shape: tuple[int, int]) -> dict:
    places = {
        ("v", i): np.array([i % shape[1], -(i // shape[1])], float) for i in range(crf.n_vars)
    }
    taken: dict[tuple, int] = {}
    for node, variables in graph.nodes(data="variables"):
        if variables is not None:
            centre = np.mean([places["v", v] for v in variables], axis=0)
            key = tuple(centre.round(6).tolist())
            taken[key] = taken.get(key, -1) + 1
            # cliques over the same place stand side by side
            places[node] = centre + 0.16 * taken[key] * np.array([1.0, 0.6])
    return places


def _pack(graph: Any) -> dict:
    """Connected parts by springs, the largest first, on shelves: each in a square whose area is
    its number of nodes.
    """
    import networkx

    places: dict = {}
    left, top, shelf = 0.0, 0.0, 0.0
    width = 2.0 + 1.2 * np.sqrt(len(graph))
    for part in sorted(networkx.connected_components(graph), key=len, reverse=True):
        # sorted, because the order of a set, and with it the picture, may change from run to run
        ordered = networkx.Graph()
        ordered.add_nodes_from(sorted(part))
        ordered.add_edges_from(sorted(tuple(sorted(e)) for e in graph.subgraph(part).edges))
        side = np.sqrt(len(part))
        if left > 0 and left + side > width:
            left, top, shelf = 0.0, top - shelf - 1.0, 0.0
        inside = (
            networkx.kamada_kawai_layout(ordered)
            if len(part) > 1
            else dict.fromkeys(part, np.zeros(2))
        )
        corner = np.array([left + side / 2, top - side / 2])
        places.update(
            {node: corner + side / 2 * np.asarray(place) for node, place in inside.items()}
        )
        left, shelf = left + side + 1.0, max(shelf, side)
    return places
