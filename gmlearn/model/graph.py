"""A model as a networkx factor graph, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gmlearn._utils.validation import check_array, check_number
from gmlearn.model.crf import CRF
from gmlearn.potentials.base import Block
from gmlearn.potentials.table import Table
from gmlearn.potentials.unary import Unary

if TYPE_CHECKING:
    import networkx

#: joint states up to which a clique's table is written out
MAX_TABLE = 2**16
#: table entries that are computed at a time
CHUNK = 2**21


def to_networkx(crf: CRF, weights: Any = None, max_table: int = MAX_TABLE) -> networkx.Graph:
    """The bipartite factor graph of a model.

    Nodes ``("v", i)`` are variables, with `n_states` and `unary` (L_i,), their costs. Nodes ``("f",
    block, clique)`` are cliques, with `variables` (a tuple, in the order of the table's axes),
    `potential` (its registered name) and, where it is known and small enough, `table`, an array
    with one axis per variable. Edges join cliques and their variables. The graph's attribute
    `constant` is the constant of the energy; the node attribute `bipartite` is 0 for variables, 1
    for cliques.

    Parameters
    ----------
    weights : values of the weight segments. None leaves out what they decide: learnt cliques have
        no `table`, and learnt unary terms stay cliques of their own; with weights these are part of
        `unary`.
    max_table : joint states up to which a clique gets its `table`; 0 for none.

    Notes
    -----
    O(V + number of clique members) nodes and edges, and the tables.

    Examples
    --------
    >>> import gmlearn as gm
    >>> from gmlearn.model.graph import to_networkx
    >>> crf = gm.CRF(2, 2).add_unary([[0, 1], [1, 0]])
    >>> _ = crf.add(gm.Potts([[0, 1]], contrast=[3.0]))
    >>> to_networkx(crf).nodes["f", 0, 0]["table"].tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    import networkx

    if not isinstance(crf, CRF):
        raise TypeError(f"crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    check_number("max_table", max_table, low=0)
    w = None if weights is None and crf.layout.size else crf.check_weights(weights)
    unary = crf.unary if w is None else crf.unary_costs(w)
    graph = networkx.Graph(constant=crf.constant)
    for i in range(crf.n_vars):
        costs = unary[crf.offsets[i] : crf.offsets[i + 1]].copy()
        graph.add_node(("v", i), bipartite=0, n_states=int(crf.n_states[i]), unary=costs)
    for b, block in enumerate(crf.blocks):
        if isinstance(block, Unary) and w is not None:
            continue
        members = np.split(block.members, block.indptr[1:-1]) if len(block) else []
        for m, clique in enumerate(members):
            node, variables = ("f", b, m), tuple(clique.tolist())
            graph.add_node(node, bipartite=1, variables=variables, potential=block.name)
            graph.add_edges_from((node, ("v", v)) for v in variables)
        known = w if w is not None else (None if block.segments() else {})
        if known is not None:
            for m, table in _tables(block, known, max_table):
                graph.nodes["f", b, m]["table"] = table
    return graph


def _tables(
    block: Block, w: Mapping[str, np.ndarray], max_table: int
) -> Iterator[tuple[int, np.ndarray]]:
    """(clique, its table) for the cliques that are small enough, a chunk of equal size at a
    time.
    """
    sizes = np.diff(block.indptr)
    for size in np.unique(sizes):
        cliques = np.flatnonzero(sizes == size)
        entries = float(block.take(cliques).max_states) ** int(size)
        if entries > max_table:
            continue
        step = max(1, int(CHUNK // entries))
        for part in np.split(cliques, np.arange(step, len(cliques), step)):
            chosen = block.take(part)
            shapes = chosen.member_states.reshape(len(part), int(size)).tolist()
            for m, table, shape in zip(part.tolist(), chosen.table(w), shapes):
                yield m, table[tuple(slice(n) for n in shape)].copy()


def from_networkx(graph: networkx.Graph) -> CRF:
    """The model of a factor graph as `to_networkx` makes it: same energies, every clique a `Table`.

    Parameters
    ----------
    graph : nodes ``("v", 0)`` to ``("v", V - 1)`` with `n_states` and (optionally) `unary`; nodes
        ``("f", ...)`` with `variables` and `table`, joined by edges to their variables.

    Raises
    ------
    ValueError : naming the node, what it lacks, and what to do.
    """
    if not (hasattr(graph, "nodes") and hasattr(graph, "neighbors")):
        raise TypeError(f"graph: expected a networkx.Graph, got {type(graph).__name__}")
    by_kind: dict[str, list] = {"v": [], "f": []}
    for node in graph.nodes:
        if not (isinstance(node, tuple) and len(node) > 1 and node[0] in by_kind):
            raise ValueError(
                f"graph: expected nodes ('v', i) and ('f', block, clique), got {node!r}"
            )
        by_kind[node[0]].append(node)
    n_vars = len(by_kind["v"])
    missing = [i for i in range(n_vars) if ("v", i) not in graph]
    if missing:
        raise ValueError(
            f"graph: expected variables ('v', 0) to ('v', {n_vars - 1}), found no ('v', "
            f"{missing[0]})"
        )
    crf = CRF(np.array([_attribute(graph, ("v", i), "n_states") for i in range(n_vars)], np.int64))
    for i in range(n_vars):
        if "unary" in graph.nodes["v", i]:
            crf.add_unary(
                check_array(
                    f"unary of ('v', {i})",
                    graph.nodes["v", i]["unary"],
                    shape=(int(crf.n_states[i]),),
                    allow_inf=True,
                )[None],
                [i],
            )
    crf.constant = float(graph.graph.get("constant", 0.0))
    _add_cliques(crf, graph, by_kind["f"])
    return crf


def _add_cliques(crf: CRF, graph: networkx.Graph, nodes: list) -> None:
    """One `Table` block for each clique size; cliques of one variable join its unary costs."""
    by_arity: dict[int, tuple[list, list]] = {}
    for node in nodes:
        variables = tuple(_attribute(graph, node, "variables"))
        neighbours = {other[1] for other in graph.neighbors(node)}
        if set(variables) != neighbours:
            raise ValueError(
                f"graph: {node!r} names the variables {variables}, but its edges lead to "
                f"{sorted(neighbours)}"
            )
        table = np.asarray(_attribute(graph, node, "table"), float)
        shape = tuple(crf.n_states[list(variables)].tolist())
        if table.shape != shape:
            raise ValueError(
                f"graph: the table of {node!r} has shape {table.shape}, but its variables have "
                f"{shape} states"
            )
        scopes, tables = by_arity.setdefault(len(variables), ([], []))
        scopes.append(variables)
        tables.append(table)
    for arity, (scopes, tables) in by_arity.items():
        if arity == 1:
            for (v,), table in zip(scopes, tables):
                crf.add_unary(table[None], [v])
        else:
            crf.add(Table(scopes, tables))


def _attribute(graph: networkx.Graph, node: Any, name: str) -> Any:
    if name not in graph.nodes[node]:
        advice = (
            "; a learnt clique gets one by crf.to_networkx(weights), a large one by a larger "
            "max_table"
            if name == "table"
            else ""
        )
        raise ValueError(f"graph: node {node!r} has no attribute {name!r}{advice}")
    return graph.nodes[node][name]
