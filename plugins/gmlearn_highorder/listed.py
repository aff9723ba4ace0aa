"""What Pn-Potts and pattern cliques share: a few labellings with a cost of their own, all others
with one cost.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

import gmlearn as gm

Weights = Mapping[str, np.ndarray]


def for_each_clique(name: str, value: Any, n: int, allow_inf: bool = True) -> np.ndarray:
    """`value`, a number or (n,), as a float array (n,)."""
    return gm.check_array(
        name, np.full(n, value) if np.ndim(value) == 0 else value, shape=(n,), allow_inf=allow_inf
    )


def whole_for_each_clique(name: str, value: Any, n: int) -> np.ndarray:
    """`value`, a whole number >= 0 or (n,) of them, as an int array (n,)."""
    array = gm.check_array(
        name, np.full(n, value) if np.ndim(value) == 0 else value, shape=(n,), dtype=np.int64
    )
    if array.size and array.min() < 0:
        raise ValueError(f"{name}: expected whole numbers >= 0, got {int(array.min())}")
    return array


def times(share: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """share * cost with 0 * inf = 0: what is not taken costs nothing."""
    return np.multiply(
        share, cost, out=np.zeros(np.broadcast_shapes(share.shape, cost.shape)), where=share > 0
    )


def others_product(p: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """float (S, J): the products of p (S, J) over the other members of each clique."""
    from gmlearn_highorder._expected_numba import others_product

    out = np.empty(p.shape)
    others_product(np.ascontiguousarray(p), indptr, out)
    return out


def expected_of_counts(
    p: np.ndarray, indptr: np.ndarray, f: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """float (S, 2): the expectation of f(count) over the other members of each clique if a member
    is not counted, and if it is.

    p : float (S,), the probability of each to be counted.   start : clique m reads f[start[m] + n].
    """
    from gmlearn_highorder._expected_numba import expected_of_totals

    out = np.empty((len(p), 2))
    values = np.tile(np.arange(2), (len(p), 1))
    q = np.stack([1.0 - p, p], axis=1)
    expected_of_totals(q, values, indptr, np.diff(indptr), f, start, out)
    return out


def shares_by_label(off: np.ndarray, on: np.ndarray) -> np.ndarray:
    """float (S, L, L): the share of label j if a member takes label a, `on` (S, L) for its own
    label, `off` (S, L) for the others.
    """
    own = np.eye(on.shape[1], dtype=bool)
    return np.where(own, on[:, None, :], off[:, None, :])


class ListedCosts:
    r"""Cliques that pay :math:`s\,c_j + (1 - s)\,c_{max}`, where x decides the option j and its
    share s in [0, 1].

    A mixin for blocks. The costs of the J options are fixed, (M, J), or learnt, :math:`c_j = w_j
    \cdot z_j` with inputs z (M, J, F), or (M, F) where all options share them, and weights (J, F).
    The cost of everything else is fixed, or learnt as one weight times `other`. A subclass writes
    `selected` and calls `set_costs`.
    """

    fixed: Any  # float (M, J), or (M, 1) where all options cost the same; None if learnt
    inputs: Any  # float (M, J, F) or (M, F), or None if fixed
    other: np.ndarray
    weight: Any
    weight_other: str | None
    n_options: int

    def set_costs(
        self,
        names: tuple[str, str],
        fixed: Any,
        other: Any,
        features: Any,
        weight: str | None,
        weight_other: str | None,
    ) -> None:
        """Check and keep the costs; `names` are the arguments of `fixed` and `other`, for
        messages.
        """
        kind, m = type(self).__name__, len(self)  # type: ignore[arg-type]
        if (fixed is None) == (weight is None):
            raise ValueError(
                f"{kind}: give either `{names[0]}` (fixed costs) or `weight` (learnt ones), not "
                f"both or neither"
            )
        if features is not None and weight is None:
            raise ValueError(f"{kind}.features: need the name of a weight segment, `weight`")
        self.fixed = self.inputs = None
        if fixed is not None:
            array = np.atleast_1d(gm.check_array(f"{kind}.{names[0]}", fixed, allow_inf=True))
            if array.ndim > 2 or (array.ndim == 2 and len(array) != m):
                raise ValueError(
                    f"{kind}.{names[0]}: expected a number, one for each option, or {m} rows of "
                    f"them, "
                    f"got shape {array.shape}"
                )
            self.fixed = np.ascontiguousarray(np.broadcast_to(array, (m, array.shape[-1])))
        else:
            self.inputs = (
                np.ones((m, 1))
                if features is None
                else gm.check_array(f"{kind}.features", features, ndim=(2, 3))
            )
            if len(self.inputs) != m:
                raise ValueError(
                    f"{kind}.features: expected one row per clique ({m}), got {len(self.inputs)}"
                )
        self.other = for_each_clique(f"{kind}.{names[1]}", other, m, allow_inf=weight_other is None)
        named = self.segment_name  # type: ignore[attr-defined]
        self.weight, self.weight_other = named(weight), named(weight_other, "weight_max")
        if weight is not None and weight == weight_other:
            raise ValueError(
                f"{kind}: `weight` and `weight_max` name the same segment {weight!r}; give two "
                f"names"
            )

    def cost_state(self, fixed: str, other: str) -> dict[str, Any]:
        """The arguments of `set_costs` again; `fixed` and `other` are their names."""
        return {
            fixed: self.fixed,
            other: self.other,
            "features": self.inputs,
            "weight": self.weight,
            "weight_max": self.weight_other,
        }

    def check_options(self, n_options: int) -> None:
        """Now that their number is known: one cost, or one row of inputs, for each option."""
        self.n_options = n_options
        if self.fixed is not None and self.fixed.shape[1] not in (1, n_options):
            raise ValueError(
                f"{self}: expected costs of {n_options} options, got {self.fixed.shape[1]}"
            )
        if self.inputs is not None and self.inputs.ndim == 3 and self.inputs.shape[1] != n_options:
            raise ValueError(
                f"{self}: expected features of shape (M, {n_options}, F), got {self.inputs.shape}"
            )

    def segments(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        if self.weight is not None:
            found[self.weight] = (self.n_options, self.inputs.shape[-1])
        if self.weight_other is not None:
            found[self.weight_other] = ()
        return found | self.gradient_segments()  # type: ignore[attr-defined]

    def own_costs(self) -> np.ndarray | None:
        if self.fixed is None or self.weight_other is not None:
            return None
        return np.full(len(self.fixed), self.n_options + 1)

    def cost_gradient(self, found: np.ndarray, w: Weights) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives in the fixed costs (M, J) of the options and (M,) of everything else."""
        rows = found.reshape(-1, self.n_options + 1)
        return rows[:, :-1], rows[:, -1]

    def with_costs(self, numbers: Any) -> Any:
        """The same cliques with other fixed costs, (M, J) of the options and (M,) of the rest."""
        kind, (fixed, other) = type(self).__name__, numbers
        new = copy.copy(self)
        shape = (len(self.fixed), self.n_options)
        new.fixed = gm.check_array(kind, fixed, shape=shape, allow_inf=True)
        new.other = gm.check_array(kind, other, shape=self.other.shape, allow_inf=True)
        return new

    def option_costs(self, w: Weights) -> np.ndarray:
        """float (M, J)."""
        if self.fixed is not None:
            shared = self.fixed.shape[1] != self.n_options  # one cost for all options
            return np.repeat(self.fixed, self.n_options, axis=1) if shared else self.fixed
        from gmlearn_highorder._listed_numba import costs_of_options

        out = np.empty((len(self.inputs), self.n_options))
        costs_of_options(self._inputs_by_option(), np.ascontiguousarray(w[self.weight], float), out)
        return out

    def _inputs_by_option(self) -> np.ndarray:
        """The inputs as (M, J, F), or (M, 1, F) where all options share them."""
        return self.inputs if self.inputs.ndim == 3 else self.inputs[:, None, :]

    def other_costs(self, w: Weights) -> np.ndarray:
        """float (M,): what every labelling without a cost of its own pays."""
        return self.other if self.weight_other is None else self.other * w[self.weight_other]

    def selected(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The option (M,) that x selects, and its share (M,); where the share is 0 the option
        does not matter.
        """
        raise TypeError(f"{type(self).__name__} must define selected(x)")

    def energy(self, x: np.ndarray, w: Weights) -> np.ndarray:
        option, share = self.selected(x)
        if self.fixed is not None and self.fixed.shape[1] == 1:
            own = self.fixed[:, 0]
        else:
            own = self.option_costs(w)[np.arange(len(option)), option]
        return times(share, own) + times(1.0 - share, self.other_costs(w))

    def expected_costs(self, share: np.ndarray, w: Weights) -> np.ndarray:
        """Expected energies (S, A) from the expected shares (S, A, J) of the options."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.indptr))  # type: ignore[attr-defined, arg-type]
        options = times(share, self.option_costs(w)[owner][:, None, :]).sum(axis=2)
        rest = np.maximum(1.0 - share.sum(axis=2), 0.0)
        return options + times(rest, self.other_costs(w)[owner][:, None])

    def features(self, x: np.ndarray, weight: np.ndarray | None = None) -> dict[str, np.ndarray]:
        if not self.segments():
            return {}
        option, share = self.selected(x)
        found = {}
        if self.weight_other is not None:
            rest = self.other if weight is None else weight * self.other
            found[self.weight_other] = np.asarray((1.0 - share) @ rest)
        if self.weight is not None:
            from gmlearn_highorder._listed_numba import sum_chosen

            found[self.weight] = np.zeros((self.n_options, self.inputs.shape[-1]))
            sum_chosen(
                self._inputs_by_option(),
                option,
                share if weight is None else share * weight,
                found[self.weight],
            )
        place, amount = self._chosen_costs(option, share)
        amount = amount if weight is None else amount * weight[:, None]
        return found | self.gradient_features(place, amount)  # type: ignore[attr-defined]

    def clique_features(self, x: np.ndarray) -> dict[str, np.ndarray]:
        if not self.segments():
            return {}
        option, share = self.selected(x)
        found = {}
        if self.weight is not None:
            from gmlearn_highorder._listed_numba import write_chosen

            found[self.weight] = np.empty((len(option), self.n_options, self.inputs.shape[-1]))
            write_chosen(self._inputs_by_option(), option, share, found[self.weight])
        if self.weight_other is not None:
            found[self.weight_other] = (1.0 - share) * self.other
        place, amount = self._chosen_costs(option, share)
        return found | self.clique_gradient_features(place, amount)  # type: ignore[attr-defined]

    def _chosen_costs(self, option: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places (M, 2) of the option and of the rest among a clique's costs, and their shares."""
        place = np.stack([option, np.full(len(option), self.n_options)], axis=1)
        return place, np.stack([share, 1.0 - share], axis=1)

    def choice_features(self, chosen: np.ndarray, rest: np.ndarray) -> dict[str, np.ndarray]:
        """Features where options have the shares `chosen` (M, J) and everything else `rest`
        (M,).
        """
        found = {}
        if self.weight is not None:
            found[self.weight] = (
                chosen.T @ self.inputs
                if self.inputs.ndim == 2
                else np.einsum("mj,mjf->jf", chosen, self.inputs)
            )
        if self.weight_other is not None:
            found[self.weight_other] = np.asarray(rest @ self.other)
        place, amount = np.arange(self.n_options + 1), np.column_stack([chosen, rest])
        return found | self.gradient_features(place, amount)  # type: ignore[attr-defined]
