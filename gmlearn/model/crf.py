"""The model: variables, unary costs and blocks of cliques, E(x; w) = const(x) + w . g(x)."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from gmlearn._utils.ranges import ranges
from gmlearn._utils.validation import check_array, check_number, is_number
from gmlearn.model.weights import WeightLayout
from gmlearn.potentials.base import Block
from gmlearn.potentials.unary import Unary
from gmlearn.registry import registry

#: labels of all variables that any machine could hold
MAX_LABELS = 2**40


class CRF:
    r"""A hypergraph CRF over discrete variables.

    .. math:: E(x; w) = \sum_p u_p(x_p; w) + \sum_c h_c(x_c; w)

    Parameters
    ----------
    n_states : int (V,), the number of states of each variable; or the number of variables, with
        `n_labels`.
    n_labels : one number of states for all variables.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF([2, 3])
    >>> crf = crf.add_unary([[0.0, 1.0], [0.5, 0.0, 2.0]])
    >>> _ = crf.add(gm.Pairwise([[0, 1]], table=[[0, 4, 4], [4, 0, 4]]))
    >>> gm.solve(crf).labels.tolist()
    [0, 0]
    """

    def __init__(self, n_states: Any, n_labels: int | None = None):
        if n_labels is not None:
            n_vars = check_number("n_states", n_states, low=0, high=MAX_LABELS, integer=True)
            check_number("n_labels", n_labels, low=1, high=MAX_LABELS, integer=True)
            n_states = np.full(n_vars, n_labels)
        elif is_number(n_states):
            raise ValueError(
                f"n_states: expected one number per variable, or CRF(n_vars, n_labels); got "
                f"{n_states!r} alone"
            )
        self.n_states = check_array("n_states", n_states, ndim=1, dtype=np.int64)
        if self.n_states.size and self.n_states.min() < 1:
            raise ValueError(
                f"n_states: every variable needs at least one state, got {int(self.n_states.min())}"
            )
        if float(self.n_states.sum(dtype=float)) > MAX_LABELS:
            raise ValueError(f"n_states: expected at most {MAX_LABELS} labels of all variables")
        self.offsets = np.concatenate([[0], np.cumsum(self.n_states)])
        self.unary = np.zeros(int(self.offsets[-1]))
        self.blocks: list[Block] = []
        #: a constant of the energy, whatever the labels
        self.constant = 0.0
        #: where the costs of unary blocks go, by the block's id
        self._known_slots: dict[int, Any] = {}
        #: int (n + 1,), first variable of each model that was joined into this one
        self.parts = np.array([0, len(self.n_states)])

    # ------------------------------------------------------------------ building

    @property
    def n_vars(self) -> int:
        return len(self.n_states)

    @property
    def n_coords(self) -> int:
        """Number of indicators [x_v = l]."""
        return int(self.offsets[-1])

    @property
    def uniform(self) -> bool:
        """Do all variables have the same number of states?"""
        return self.n_vars > 0 and bool((self.n_states == self.n_states[0]).all())

    def add_unary(self, costs: Any, variables: Any = None) -> CRF:
        """Add fixed costs of single variables; ``inf`` forbids a label. Returns the model.

        Parameters
        ----------
        costs : (V, L), or one array of costs for each variable where their numbers of states
            differ.
        variables : int (n,), the variables concerned, all by default.
        """
        variables = (
            np.arange(self.n_vars) if variables is None else self._check_variables(variables)
        )
        states = self.n_states[variables]
        try:
            rectangular: Any = np.asarray(costs, dtype=float)
        except ValueError:  # rows of different lengths
            rectangular = None
        if rectangular is None:
            rows = [
                check_array(f"costs[{i}]", c, ndim=1, allow_inf=True) for i, c in enumerate(costs)
            ]
            lengths = np.array([len(r) for r in rows])
            if len(rows) != len(variables) or (lengths != states).any():
                raise ValueError(
                    f"costs: expected {len(variables)} rows with {states.tolist()[:8]}... entries, "
                    f"got {lengths.tolist()[:8]}..."
                )
            flat = np.concatenate(rows) if rows else np.zeros(0)
        else:
            expected = (len(variables), int(states[0]) if len(states) else 0)
            if (states != expected[1]).any():
                raise ValueError(
                    "costs: the variables have different numbers of states; give one array for "
                    "each variable"
                )
            flat = check_array("costs", costs, shape=expected, allow_inf=True).ravel()
        slots = ranges(self.offsets[variables], states)
        np.add.at(self.unary, slots, flat)
        return self

    def add(self, block: Block | str, **parameters: Any) -> Block:
        """Add a block of cliques: an object, or the name of a registered potential and its
        parameters.

        Returns the block as the model holds it, which is what `remove` takes.
        """
        if isinstance(block, str):
            kind = registry.get("potential", block)
            check_parameters(f"crf.add({block!r})", kind, parameters)
            block = kind(**parameters)
        elif parameters:
            raise ValueError(
                f"crf.add: parameters {sorted(parameters)} go with the name of a potential, not "
                f"with a block object"
            )
        if not isinstance(block, Block):
            raise TypeError(
                f"crf.add: expected a gmlearn.Block or the name of one, got {type(block).__name__}"
            )
        bound = block.bind(self.n_states)
        WeightLayout.merged([b.segments() for b in [*self.blocks, bound]])
        self.blocks.append(bound)
        return bound

    def remove(self, block: Block) -> None:
        """Take a block out again."""
        for i, b in enumerate(self.blocks):
            if b is block:
                self._known_slots.pop(id(block), None)
                del self.blocks[i]
                return
        raise ValueError(
            f"crf.remove: {block!r} is not a block of this model; use what crf.add returned, or "
            f"crf.blocks"
        )

    def copy(self) -> CRF:
        """A model that shares the (immutable) blocks but can be changed on its own."""
        other = object.__new__(type(self))  # twice as fast as copy.copy
        vars(other).update(vars(self))
        other._known_slots = {}
        other.unary, other.blocks = self.unary.copy(), list(self.blocks)
        return other

    def clamp(self, labels: Any, mask: Any = None) -> CRF:
        """The model with some variables fixed: every other label of theirs costs ``inf``.

        Parameters
        ----------
        labels : int (V,) with `mask` (bool, True = fix), or with -1 for free variables; or a
            mapping variable -> label.
        """
        if isinstance(labels, Mapping):
            full = np.full(self.n_vars, -1, np.int64)
            fixed = self._check_variables(list(labels))
            full[fixed] = check_array(
                "labels", list(labels.values()), shape=(len(fixed),), dtype=np.int64
            )
        else:
            full = check_array("labels", labels, shape=(self.n_vars,), dtype=np.int64)
            chosen = (
                full != -1
                if mask is None
                else check_array("mask", mask, shape=(self.n_vars,), dtype=bool)
            )
            fixed = np.flatnonzero(chosen)
        self._check_range(full, fixed)
        clamped = self.copy()
        states = self.n_states[fixed]
        slots = ranges(self.offsets[fixed], states)
        chosen = np.repeat(full[fixed], states) == ranges(np.zeros_like(states), states)
        clamped.unary[slots[~chosen]] = np.inf
        return clamped

    # ------------------------------------------------------------------ evaluating

    @property
    def layout(self) -> WeightLayout:
        """The weight segments of all blocks."""
        return WeightLayout.merged([b.segments() for b in self.blocks])

    def check_weights(self, weights: Any) -> dict[str, np.ndarray]:
        """`weights` as a complete mapping of arrays for this model."""
        return self.layout.check(weights)

    def check_labels(self, x: Any) -> np.ndarray:
        """`x` as a labelling (V,) of this model."""
        x = check_array("labels", x, shape=(self.n_vars,), dtype=np.int64)
        self._check_range(x, np.arange(self.n_vars))
        return x

    def energy(self, x: Any, weights: Any = None) -> float:
        """E(x; w); ``inf`` if a hard constraint is broken."""
        x, w = self.check_labels(x), self.check_weights(weights)
        total = self.constant + self.unary[self.offsets[:-1] + x].sum()
        for block in self.blocks:
            total += block.energy(block.gather(x), w).sum()
        return float(total)

    def rows(self, flat: np.ndarray, beyond: float = 0.0) -> np.ndarray:
        """Values of labels (n_coords,) as (V, L), L the largest number of states, `beyond` where a
        variable has fewer.
        """
        if self.uniform:
            return flat.reshape(self.n_vars, -1)
        out = np.full((self.n_vars, int(self.n_states.max(initial=1))), beyond)
        out[np.arange(out.shape[1]) < self.n_states[:, None]] = flat
        return out

    def flat(self, rows: np.ndarray) -> np.ndarray:
        """The inverse of `rows`."""
        own = np.arange(rows.shape[1]) < self.n_states[:, None]
        return rows.ravel() if self.uniform else rows[own]

    def energies(
        self, x: np.ndarray, w: Mapping[str, np.ndarray], unary: np.ndarray | None = None
    ) -> np.ndarray:
        """E(x; w) of each model that was joined into this one, (n,), without their constants;
        `unary` (n_coords,) are the `unary_costs` where they are known.
        """
        parts = self.parts
        unary = self.unary_costs(w) if unary is None else unary
        home = np.repeat(np.arange(len(parts) - 1), np.diff(parts))
        total = np.bincount(home, unary[self.offsets[:-1] + x], len(parts) - 1)
        for block in self.clique_blocks:
            first = block.members[block.indptr[:-1]]
            total += np.bincount(home[first], block.energy(block.gather(x), w), len(total))
        return total

    def features(self, x: Any, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """g(x), by weight segment; `weight` (V,) are factors of cliques, each of its first
        variable.
        """
        x = self.check_labels(x)
        layout = self.layout
        flat = np.zeros(layout.size)
        for block in self.blocks:
            # a potential may have a default of its own for the argument
            own = () if weight is None else (weight[block.members[block.indptr[:-1]]],)
            layout.join(block.features(block.gather(x), *own), flat)
        return layout.split(flat)

    def unary_costs(self, w: Mapping[str, np.ndarray]) -> np.ndarray:
        """All unary costs (n_coords,), fixed and learnt."""
        costs = self.unary.copy()
        for block in self.unary_blocks:
            slots = self._slots(block)
            if block.distinct:
                costs[slots] += block.costs(w).ravel()
            else:
                np.add.at(costs, slots, block.costs(w).ravel())
        return costs

    def _slots(self, block: Unary) -> Any:
        """Where the costs (M L,) of a unary block go: a slice, if its variables are consecutive."""
        known = self._known_slots.get(id(block))
        if known is None:
            first, n = self.offsets[block.members], block.max_states
            if len(first) and (np.diff(first) == n).all():
                known = slice(first[0], first[0] + n * len(first))
            else:
                known = (first[:, None] + np.arange(n)).ravel()
            self._known_slots[id(block)] = known
        return known

    def unary_features(self, marginals: np.ndarray) -> dict[str, np.ndarray]:
        """The gradient of <marginals, unary_costs(w)> in w; marginals (n_coords,)."""
        total: dict[str, np.ndarray] = {}
        for block in self.unary_blocks:
            own = marginals[self._slots(block)].reshape(len(block), block.max_states)
            for name, value in block.expected_features(own).items():
                total[name] = total.get(name, 0.0) + value
        return total

    @property
    def unary_blocks(self) -> list[Unary]:
        return [b for b in self.blocks if isinstance(b, Unary)]

    @property
    def clique_blocks(self) -> list[Block]:
        """The blocks that need slaves: all but the unary ones."""
        return [b for b in self.blocks if not isinstance(b, Unary) and len(b)]

    # ------------------------------------------------------------------ as a graph

    def to_networkx(self, weights: Any = None, max_table: int = 2**16) -> Any:
        """The bipartite factor graph (see `gmlearn.model.graph.to_networkx`)."""
        from gmlearn.model.graph import to_networkx

        return to_networkx(self, weights, max_table)

    @staticmethod
    def from_networkx(graph: Any) -> CRF:
        """The model of a factor graph, every clique a `Table`."""
        from gmlearn.model.graph import from_networkx

        return from_networkx(graph)

    # ------------------------------------------------------------------ checks and display

    def _check_variables(self, variables: Any) -> np.ndarray:
        variables = check_array("variables", variables, ndim=1, dtype=np.int64)
        if variables.size and (variables.min() < 0 or variables.max() >= self.n_vars):
            bad = variables[(variables < 0) | (variables >= self.n_vars)][0]
            raise ValueError(f"variables: expected indices in 0..{self.n_vars - 1}, got {int(bad)}")
        return variables

    def _check_range(self, labels: np.ndarray, which: np.ndarray) -> None:
        bad = which[(labels[which] < 0) | (labels[which] >= self.n_states[which])]
        if bad.size:
            v = int(bad[0])
            raise ValueError(
                f"labels: variable {v} has states 0..{int(self.n_states[v]) - 1}, got "
                f"{int(labels[v])}"
            )

    def __repr__(self) -> str:
        states = (
            f"L={int(self.n_states[0])}"
            if self.uniform
            else f"L<={int(self.n_states.max(initial=0))}"
        )
        return f"CRF(V={self.n_vars}, {states}, blocks=[{', '.join(map(repr, self.blocks))}])"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{b.name}</td><td>{len(b)}</td><td>{b.arity}</td>"
            f"<td>{b.segments() or 'fixed'}</td></tr>"
            for b in self.blocks
        )
        return (
            f"<b>CRF</b>: {self.n_vars} variables, up to {int(self.n_states.max(initial=0))} states"
            f"<table><tr><th>potential</th><th>cliques</th><th>arity</th><th>weights</th></tr>{rows}</table>"
        )


def check_parameters(call: str, kind: type, given: dict[str, Any]) -> None:
    """TypeError if `kind` does not take the keywords, with what it takes and who takes the
    others.
    """
    accepted = inspect.signature(kind).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values()):
        return
    unknown = [name for name in given if name not in accepted]
    missing = [name for name, p in accepted.items() if p.default is p.empty and name not in given]
    if not unknown and not missing:
        return
    problem = f"unknown parameter {unknown[0]!r}" if unknown else f"{missing[0]!r} is missing"
    hint = ""
    if unknown:
        near = difflib.get_close_matches(unknown[0], [n for n in accepted if n not in given], n=1)
        others = [
            repr(e.name)
            for e in registry.loaded("potential")
            if unknown[0] in inspect.signature(e.obj).parameters
        ]
        if near:
            hint = f"; did you mean {near[0]!r}?"
        elif others:
            hint = f"; {unknown[0]!r} belongs to {', '.join(others[:4])}"
    raise TypeError(f"{call}: {problem}; it takes {', '.join(accepted)}{hint}")
