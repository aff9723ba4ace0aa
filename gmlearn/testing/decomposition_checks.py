"""Checks of decompositions: slaves add up to the energy, their copies of every clique to the
clique, and they bound the minimum.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from gmlearn.decompositions import Slaves, Subgraphs
from gmlearn.master import Dual
from gmlearn.model.crf import CRF
from gmlearn.slaves import FreeGroup
from gmlearn.testing.brute_force import energy_table
from gmlearn.testing.kit import (
    TOL,
    GroupCase,
    NotApplicable,
    cases_of,
    check_of,
    checks_for,
    expect,
    expect_close,
    outcome,
)
from gmlearn.testing.models import marked_crf, random_labels, small_models, untouched
from gmlearn.testing.slave_checks import Weights

DECOMPOSITION = "decomposition"


@cases_of(DECOMPOSITION)
def decomposition_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, CRF, Weights]]:
    """(decomposition, crf, w): the thing's own examples and those of the kit's models that it
    does not refuse.
    """
    if type(thing) is Subgraphs and not thing.sets:
        thing = Subgraphs([[0, 1, 2], [2, 1], [2, 0]])
    if callable(getattr(thing, "examples", None)):
        for crf, w in thing.examples(rng):
            yield thing, crf, crf.check_weights(w)
    for _, crf, w in small_models(rng):
        if accepts(thing, crf):
            yield thing, crf, w


def accepts(decomposition: Any, crf: CRF) -> bool:
    """A ValueError says that a decomposition is not meant for a model; anything else is a
    failure.
    """
    try:
        decomposition.decompose(copy.deepcopy(crf))
    except ValueError:
        return False
    return True


def slaves_total(slaves: Slaves, x: np.ndarray, w: Weights) -> float:
    """What all slaves pay for a labelling (V,): clique energies and shares of the costs of
    coordinates.
    """
    ind = slaves.indicators(x)
    share = slaves.unary(w) / np.maximum(slaves.count, 1.0)
    total = slaves.constant(w)
    for group in slaves.groups:
        if getattr(group, "ptr", None) is None or not callable(getattr(group, "energy", None)):
            raise NotApplicable(f"{type(group).__name__} has no ptr and energy(labels, w)")
        chosen = np.flatnonzero(ind[group.coords] > 0)
        total += share[group.coords[chosen]].sum()
        total += group.energy(chosen - group.ptr[:-1], w).sum()  # type: ignore[attr-defined]
    return total


@check_of(DECOMPOSITION)
def check_count(decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator) -> None:
    """count is how many slaves hold each coordinate; none holds one twice; whatever has a cost
    is held by some slave.
    """
    slaves = decomposition.decompose(crf)
    count = np.zeros(slaves.n_coords)
    for group in slaves.groups:
        for m in range(group.n):
            held = group.coords[group.owner == m]
            expect(
                (held >= 0) & (held < slaves.n_coords),
                f"a coordinate of {group} leaves 0..{slaves.n_coords - 1}",
            )
            expect(
                len(np.unique(held)) == len(held), f"slave {m} of {group} holds a coordinate twice"
            )
            count[held] += 1
    expect_close(slaves.count, count, "count")
    expect((count > 0) | (slaves.unary(w) == 0), "a coordinate with a cost is held by no slave")


@check_of(DECOMPOSITION)
def check_slaves_sum_to_the_energy(
    decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """On any labelling the slaves' clique energies and shares of the unary costs add up to E(x;
    w).
    """
    slaves = decomposition.decompose(crf)
    for _ in range(10):
        x = random_labels(rng, crf)
        found = slaves_total(slaves, x, w)
        expect_close(found, crf.energy(x, w), f"slaves summed at {x.tolist()}")


@check_of(DECOMPOSITION)
def check_copies_sum_to_the_clique(
    decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """On the same hypergraph with a weight for each clique: raising one weight changes the slaves
    that hold a copy, together by that clique's energy.
    """
    marked = marked_crf(rng, crf)
    if not marked.blocks or not accepts(decomposition, marked):
        raise NotApplicable("refuses models of tables, or the model has no cliques")
    slaves = decomposition.decompose(marked)
    zero = {name: np.zeros(()) for name in marked.layout.shapes}
    x = random_labels(rng, marked)
    for block in marked.blocks:
        (name,) = block.segments()
        unit = {**zero, name: np.ones(())}
        paid = block.energy(block.gather(x), unit)[0]
        change = slaves_total(slaves, x, unit) - slaves_total(slaves, x, zero)
        expect_close(change, paid, f"copies of the clique {block.members.tolist()} together")


@check_of(DECOMPOSITION)
def check_bound_below_the_minimum(
    decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """At any multipliers that sum to zero over the copies of a coordinate, the bound is not
    above the minimum; the same with the slaves that come in later.
    """
    slaves = decomposition.decompose(crf)
    minimum = energy_table(crf, w).min()
    for size in (0.0, 0.1, 1.0, 10.0):
        dual = Dual(slaves, w)
        dual.lam = dual.centred(size * rng.normal(size=len(dual.coords)))
        found = dual.round()
        more = slaves.grow(found.mean, dual.share + dual.lam)
        grown = [] if more is None else [Dual(more, w, more.carry(slaves, dual.lam, w)).round()]
        for bound in (found.bound, *(later.bound for later in grown)):
            expect(
                bound <= minimum + TOL * (1 + abs(minimum)),
                f"bound {bound} above the minimum {minimum} at multipliers of size {size}",
            )


@check_of(DECOMPOSITION)
def check_agreement_is_optimal(
    decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """Where exact slaves agree, the labelling read off them has the energy of the bound."""
    slaves = decomposition.decompose(crf)
    dual = Dual(slaves, w)
    agreed = 0
    for _ in range(10):
        found = dual.round(dual.centred(0.3 * rng.normal(size=len(dual.coords))))
        for x in slaves.proposals(found.results, found.mean):
            expect(
                np.shape(x) == (crf.n_vars,) and np.all((x >= 0) & (x < crf.n_states)),
                f"proposal {x} is no labelling",
            )
            if slaves.exact and found.disagreement == 0.0:
                agreed += 1
                expect_close(
                    crf.energy(x, w),
                    found.bound,
                    "energy of the labelling that all slaves agree on",
                )
    if not agreed:
        raise NotApplicable("the slaves never agreed")


@check_of(DECOMPOSITION)
def check_power_is_granted(
    decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """Asked for slaves with a power, every group has it (or the decomposition says that it
    cannot).
    """
    asked = 0
    for power in ("min_marginals", "log_partition"):
        try:
            slaves = decomposition.decompose(crf, power)
        except (ValueError, LookupError):
            continue
        asked += 1
        lacking = [g for g in slaves.groups if not g.has(power)]
        expect(not lacking, f"asked for {power}, but {lacking[:1]} has none")
    if not asked:
        raise NotApplicable("cannot give slaves with min_marginals or log_partition")


@check_of(DECOMPOSITION, whole=True)
def check_the_model_is_untouched(decomposition: Any, rng: np.random.Generator) -> None:
    """Decomposing a model, and solving the slaves, changes neither the model nor the weights."""
    # models that no other check has given away before
    for thing, crf, w in decomposition_cases(decomposition, rng):
        with untouched(crf, w):
            Dual(thing.decompose(crf), w).round()


@check_of(DECOMPOSITION)
def check_the_groups(decomposition: Any, crf: CRF, w: Weights, rng: np.random.Generator) -> None:
    """Every slave group keeps the contract of slave groups."""
    failures = []
    for group in decomposition.decompose(crf).groups:
        case = GroupCase(group, {name: w[name] for name in _segments(group, crf)})
        outcomes = [outcome(one, case, n_seeds=1) for one in checks_for(case)]
        failures += [message for ok, message in outcomes if not ok]
    expect(not failures, "; ".join(failures))


def _segments(group: Any, crf: CRF) -> list[str]:
    """The weight segments that a group reads; those of the model if it does not say."""
    blocks = getattr(group, "blocks", None) or [getattr(group, "block", None)]
    if isinstance(group, FreeGroup):
        return []
    return (
        list(crf.layout.shapes)
        if blocks == [None]
        else sorted({name for b in blocks for name in b.segments()})
    )
