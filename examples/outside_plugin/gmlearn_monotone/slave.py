"""The slave solver: one recursion along the clique for the minimum, the min-marginals and the
log-partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gmlearn as gm
from gmlearn_monotone.potential import Monotone

#: a running sum over the last axis in some semiring: np.minimum.accumulate, or its soft version
Running = Callable[[np.ndarray], np.ndarray]


class MonotoneSlave(gm.SlaveSolver):
    r"""Ordered labels in O(k L): F_i(l) = theta_i(l) + min_{l' <= l} F_{i-1}(l').

    The price of the rise is paid at the two ends: -price l at the first variable, +price l at the
    last.
    """

    name = "monotone"

    def refuses(self, block: gm.Block) -> str | None:
        return None if type(block) is Monotone else "not a Monotone block"

    def cost(self, block: gm.Block, power: str = "minimise") -> float:
        scale = {"minimise": 1.0, "min_marginals": 2.0, "log_partition": 20.0}[power]
        return scale * block.variables.size * block.max_states

    def minimise(self, block: Monotone, theta: np.ndarray, w: Any) -> tuple[np.ndarray, np.ndarray]:
        best = forwards(priced(block, theta, w), lowest)
        labels = np.empty(best.shape[:2], np.int64)
        allowed = np.full(len(block), best.shape[2] - 1)
        for i in reversed(range(block.arity)):
            within = np.arange(best.shape[2]) <= allowed[:, None]
            labels[:, i] = allowed = np.where(within, best[:, i], np.inf).argmin(axis=1)
        return labels, best[:, -1].min(axis=1, initial=np.inf)

    def min_marginals(self, block: Monotone, theta: np.ndarray, w: Any) -> np.ndarray:
        """Minima (M, k, L) with each label fixed in turn: the best way there plus the best way
        on.
        """
        costs = priced(block, theta, w)
        return forwards(costs, lowest) + onwards(costs, lowest)

    def log_partition(
        self, block: Monotone, theta: np.ndarray, w: Any, temperature: float
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Soft minima (M,), marginals (M, k, L) and expected features: min replaced by its soft
        version.
        """

        def soft(costs: np.ndarray) -> np.ndarray:
            return -temperature * np.logaddexp.accumulate(-costs / temperature, axis=-1)

        costs = priced(block, theta, w)
        joint = forwards(costs, soft) + onwards(costs, soft)
        value = soft(joint[:, 0])[:, -1]
        # inf - inf: a clique without any feasible labelling has no marginals
        with np.errstate(invalid="ignore"):
            marginals = np.exp((value[:, None, None] - joint) / temperature)
        rise = (marginals[:, -1] - marginals[:, 0]) @ np.arange(costs.shape[2])
        return value, marginals, {} if block.weight is None else {block.weight: rise.sum()}

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.Block, dict[str, np.ndarray]]]:
        variables = [[0, 1, 2], [3, 1, 2], [2, 0, 3]]
        return [
            (Monotone(variables, price=rng.normal()).bind(np.array([2, 3, 4, 3])), {}),
            (Monotone(variables, weight="rise").bind(np.full(4, 3)), {"rise": rng.normal(size=())}),
            (
                Monotone([[0], [2]], weight="rise").bind(np.full(4, 3)),
                {"rise": rng.normal(size=())},
            ),
        ]


def lowest(costs: np.ndarray) -> np.ndarray:
    """The running minimum over labels."""
    return np.minimum.accumulate(costs, axis=-1)


def priced(block: Monotone, theta: np.ndarray, w: Any) -> np.ndarray:
    """Theta (M, k, L) with the price of the rise at the two ends."""
    costs, rise = theta.copy(), block.step_price(w) * np.arange(theta.shape[2])
    costs[:, 0] -= rise
    costs[:, -1] += rise
    return costs


def forwards(costs: np.ndarray, running: Running) -> np.ndarray:
    """(M, k, L): everything up to variable i, its own cost included, if it takes label l."""
    out = costs.copy()
    for i in range(1, costs.shape[1]):
        out[:, i] += running(out[:, i - 1])
    return out


def onwards(costs: np.ndarray, running: Running) -> np.ndarray:
    """(M, k, L): everything after variable i, its own cost left out, if it takes label l."""
    out = np.zeros_like(costs)
    for i in reversed(range(costs.shape[1] - 1)):
        out[:, i] = running((costs[:, i + 1] + out[:, i + 1])[:, ::-1])[:, ::-1]
    return out
