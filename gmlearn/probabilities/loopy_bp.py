"""Loopy belief propagation: sum-product messages on a graph with cycles (Pearl 1988).

Exact on trees; elsewhere often good and without any guarantee: log Z is the Bethe estimate, neither
an upper nor a lower bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.probabilities.method import MarginalMethod, MarginalProblem, lacks_tables
from gmlearn.probabilities.result import Marginals


class LoopyBP(MarginalMethod):
    """Damped sum-product messages until they settle. No bound.

    settings : damping, the share of the old message that is kept (0.5); max_iter, passes (500);
        tol, the change of a message at which it ends (1e-6).
    """

    name = "loopy-bp"
    settings = ("damping", "max_iter", "tol")
    limits = {
        "damping": {"low": 0, "high": 1},
        "max_iter": {"low": 0, "integer": True},
        "tol": {"low": 0},
    }

    def refuses(self, crf: CRF) -> str | None:
        return lacks_tables(crf)

    def run(self, problem: MarginalProblem) -> Marginals:
        from gmlearn.probabilities._fields_numba import bethe, propagate

        settings = problem.settings
        g = problem.graph.tables(problem.temperature)
        states = np.diff(g.offsets)
        pointer = np.concatenate([[0], np.cumsum(states[g.scope])]).astype(np.int64)
        message = np.zeros(int(pointer[-1]))
        most = int(states.max())
        entries = int(problem.graph.table_sizes.max(initial=1.0))
        room, ends = np.empty(most * (g.arity + 1)), np.empty(g.arity + 1, np.int64)
        digits, joint = np.zeros(g.arity, np.int64), np.empty(entries)
        damping, tol = float(settings.get("damping", 0.5)), float(settings.get("tol", 1e-6))
        passes, change = 0, np.inf
        limit = int(settings.get("max_iter", 500))
        while passes < limit and change > tol and problem.time_left > 0:
            change = propagate(
                g,
                pointer,
                message,
                damping,
                room,
                ends,
                digits,
                joint,
                np.empty(most),
                np.empty(most),
            )
            passes += 1
        node = np.empty(len(g.unary))
        value = bethe(g, pointer, message, room, ends, digits, joint, node)
        settled = "the messages settled" if change <= tol else "the messages did not settle"
        reason = f"{settled}; loopy belief propagation gives no bound"
        more: dict[str, Any] = {"iterations": passes, "reason": reason}
        return problem.answer(self.name, value + problem.constant, node, **more)
