"""The exact minimum of E(Q) for small sets: mixed-integer programming after a dual reduction."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from gmlearn_clustering.dual_bound import dual_prices, price_bound, reduce_problem
from gmlearn_clustering.facility import FacilityProblem


def exact_exemplars(
    problem: FacilityProblem, start: np.ndarray, time_limit: float | None = None
) -> tuple[np.ndarray, float]:
    """An optimal exemplar set and a proved lower bound, by HiGHS.

    Variables: y_q (exemplar, integer) and x_pq (continuous: for fixed y the best x is integral),
    with sum_q x_pq = 1 and x_pq <= y_q. Entries that the dual prices and the energy of `start` rule
    out are left out beforehand.

    Parameters
    ----------
    start : (K,) exemplars of a good solution.
    time_limit : seconds; when it runs out the better of `start` and HiGHS's solution comes back
        with the bound so far.

    Returns
    -------
    exemplars : (K,) ascending. bound : a lower bound of the minimum, equal to the energy when
        optimality was proved.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    upper = problem.energy(start)
    price = dual_prices(problem, upper, n_rounds=1500)
    small = reduce_problem(problem, price, upper)
    client, exemplar = small.row_client, small.row_exemplar
    others = client != exemplar
    client, exemplar, cost = client[others], exemplar[others], small.row_cost[others]
    candidates = np.flatnonzero(np.isfinite(small.fee))
    if not len(candidates):  # nothing is below `start`, up to the rounding of huge costs
        return start, min(price_bound(problem, price)[0], upper)
    column = np.full(problem.n_points, -1)
    column[candidates] = np.arange(len(candidates))
    n_open = len(candidates)
    n_entries = len(client)
    n = problem.n_points
    entry = np.arange(n_entries)
    one = scipy.sparse.csr_array(
        (
            np.ones(n_entries + n_open),
            (
                np.concatenate([client, candidates]),
                np.concatenate([n_open + entry, np.arange(n_open)]),
            ),
        ),
        shape=(n, n_open + n_entries),
    )
    implied = scipy.sparse.csr_array(
        (
            np.concatenate([np.ones(n_entries), -np.ones(n_entries)]),
            (np.concatenate([entry, entry]), np.concatenate([n_open + entry, column[exemplar]])),
        ),
        shape=(n_entries, n_open + n_entries),
    )
    result = milp(
        np.concatenate([small.fee[candidates], cost]),
        integrality=np.concatenate([np.ones(n_open), np.zeros(n_entries)]),
        bounds=Bounds(0.0, 1.0),
        constraints=[LinearConstraint(one, 1.0, 1.0), LinearConstraint(implied, -np.inf, 0.0)],
        options={"mip_rel_gap": 0.0, **({} if time_limit is None else {"time_limit": time_limit})},
    )
    bound = -np.inf if result.mip_dual_bound is None else result.mip_dual_bound + problem.offset
    best = start
    if result.x is not None:
        found = candidates[result.x[:n_open] > 0.5]
        if problem.energy(found) < upper:
            best = found
    best = np.union1d(best, np.flatnonzero(problem.always_open))
    return best, float(min(bound, problem.energy(best)))
