"""Checks of marginal methods: lower <= log Z <= upper, and what is called exact, by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gmlearn.model.crf import CRF
from gmlearn.probabilities import Marginals, MarginalStatus, MethodRefusal, marginals
from gmlearn.testing.brute_force import energy_table
from gmlearn.testing.kit import NotApplicable, cases_of, check_of, expect, expect_close
from gmlearn.testing.models import accepted_models, infeasible_models, untouched
from gmlearn.testing.slave_checks import Weights

METHOD = "marginal method"
#: what rounding and the end of an iteration may take from a bound, relative to 1 + |log Z|
SLACK = 1e-6
TEMPERATURES = (1.0, 0.4)


@cases_of(METHOD)
def method_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, CRF, Weights]]:
    """(method, crf, w) for those of the kit's models, and the method's own ``examples(rng)``,
    that it does not refuse.
    """
    for crf, w in accepted_models(thing, rng)[0]:
        yield thing, crf, w


def infer(method: Any, crf: CRF, w: Weights, temperature: float = 1.0) -> Marginals:
    """``gm.marginals``; a refusal that only shows at given weights is nothing to check."""
    try:
        return marginals(crf, w, method, temperature)
    except MethodRefusal as reason:
        raise NotApplicable(str(reason)) from None


def enumerated(crf: CRF, w: Weights, temperature: float) -> tuple[float, np.ndarray]:
    """(log Z, marginals (V, L)) by writing out every labelling."""
    energy = energy_table(crf, w) / temperature
    node = np.zeros((crf.n_vars, int(crf.n_states.max(initial=0))))
    low = float(energy.min())
    if low == np.inf:
        return -np.inf, node
    p = np.exp(low - energy)
    for v in range(crf.n_vars):
        others = tuple(u for u in range(crf.n_vars) if u != v)
        node[v, : crf.n_states[v]] = p.sum(axis=others) / p.sum()
    return float(np.log(p.sum())) - low, node


@check_of(METHOD)
def check_bounds_hold_log_z(method: Any, crf: CRF, w: Weights, rng: np.random.Generator) -> None:
    """lower <= log Z <= upper at several temperatures; "exact" says that both are log Z, and that
    the marginals are those of enumeration.
    """
    for temperature in TEMPERATURES:
        log_z, node = enumerated(crf, w, temperature)
        found = infer(method, crf, w, temperature)
        slack = SLACK * (1.0 + abs(log_z)) if np.isfinite(log_z) else 0.0
        expect(not np.isnan([found.lower, found.upper, found.log_partition]).any(), "NaN")
        expect(found.lower <= log_z + slack, f"lower {found.lower!r} above log Z {log_z!r}")
        expect(found.upper >= log_z - slack, f"upper {found.upper!r} below log Z {log_z!r}")
        if found.status == MarginalStatus.EXACT:
            expect_close(found.log_partition, log_z, "log Z of an exact method")
            expect(
                np.allclose(found.node, node, atol=1e-6),
                f"exact marginals off by {np.abs(found.node - node).max():.3g}",
            )
            expect(found.lower == found.upper, "an exact answer has equal bounds")


@check_of(METHOD)
def check_marginals_are_distributions(
    method: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """node (V, L) adds up to 1 for each variable, 0 beyond its states; T and name are kept."""
    found = infer(method, crf, w, 0.7)
    size = (crf.n_vars, int(crf.n_states.max(initial=0)))
    expect(found.node.shape == size, f"node has shape {found.node.shape}, expected {size}")
    expect((found.node >= 0).all(), "a probability is negative")
    beyond = np.arange(size[1]) >= crf.n_states[:, None]
    expect(not found.node[beyond].any(), "a label that a variable does not have is possible")
    total = found.node.sum(axis=1)
    known = found.status not in (MarginalStatus.INFEASIBLE, MarginalStatus.NO_BOUNDS)
    if known:
        expect(np.allclose(total, 1.0, atol=1e-6), f"probabilities add up to {total.tolist()}")
    expect(found.temperature == 0.7, f"temperature {found.temperature!r}, asked for 0.7")


@check_of(METHOD)
def check_same_seed_same_marginals(
    method: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """Two runs give the same numbers, and leave the model as it was."""
    with untouched(crf, w):
        first, second = infer(method, crf, w), infer(method, crf, w)
    expect(np.array_equal(first.node, second.node), "two runs with one seed differ")
    expect(
        (first.lower, first.upper) == (second.lower, second.upper), "two runs with one seed differ"
    )


@check_of(METHOD, whole=True)
def check_infeasible_models_have_no_lower_bound(method: Any, rng: np.random.Generator) -> None:
    """Where no labelling is feasible log Z is -inf, and so is every lower bound."""
    tried = 0
    for _, crf, w in infeasible_models():
        if method.refuses(crf) is None:
            found = infer(method, crf, w)
            expect(found.lower == -np.inf, f"lower {found.lower!r} of an infeasible model")
            tried += 1
    if not tried:
        raise NotApplicable("it refuses the kit's infeasible models")
