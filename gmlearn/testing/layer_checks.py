"""Checks of slaves under a network: the gradients of structured losses in unary costs, in weights
and in the blocks' own numbers.

``check(slave, layer=True)`` runs them in addition to the others. Each example becomes a model with
random unary costs whose cliques are held by the slave under test, at multipliers of zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gmlearn.decompositions.base import Decomposition, Slaves, with_free_variables
from gmlearn.layers import LossPlan, structured_loss
from gmlearn.model.crf import CRF
from gmlearn.slaves.base import CliqueGroup
from gmlearn.testing.kit import LAYER, NotApplicable, check_of, dot, expect, expect_close
from gmlearn.testing.models import random_labels

Weights = dict[str, np.ndarray]
#: step of central differences, and how far they may be from the gradient
STEP, DIFFERENCE = 1e-5, 1e-6
#: labellings that are tried until one breaks no hard constraint
TRIES = 200
#: the largest steps of the subgradient inequality
MOVES = (1e-3, 0.1, 3.0)


class UnderTest(Decomposition):
    """A slave for each clique, solved by the given solver."""

    name = "under test"
    joint = True

    def __init__(self, solver: Any):
        self.solver = solver

    def decompose(self, crf: CRF, power: str | None = None) -> Slaves:
        groups = [CliqueGroup(b, self.solver, crf.offsets) for b in crf.clique_blocks]
        return Slaves(crf, with_free_variables(crf, [*groups]))


def model_of(group: Any, w: Weights, rng: np.random.Generator) -> tuple[CRF, np.ndarray]:
    """A model of the group's cliques, and feasible labels of it."""
    block, offsets = getattr(group, "block", None), getattr(group, "offsets", None)
    if block is None or offsets is None or not len(block):
        raise NotApplicable(f"{type(group).__name__} has no block of cliques, or an empty one")
    crf = CRF(np.diff(offsets))
    crf.blocks.append(block)
    for _ in range(TRIES):
        labels = random_labels(rng, crf)
        if np.isfinite(crf.energy(labels, w)):
            return crf, labels
    raise NotApplicable(f"no feasible labelling among {TRIES} random ones")


def costs_of(crf: CRF, rng: np.random.Generator) -> np.ndarray:
    """float (V, L): random unary costs."""
    return rng.normal(size=(crf.n_vars, int(crf.n_states.max(initial=1))))


def moved(w: Weights, change: Weights, step: float) -> Weights:
    return {name: w[name] + step * change[name] for name in w}


def _expect_slope(slope: float, sides: list[float], what: str) -> None:
    difference = (sides[0] - sides[1]) / (2 * STEP)
    what = f"the derivative of {what} (against a central difference)"
    expect_close(float(slope), difference, what, tol=DIFFERENCE)


def _exact_soft(group: Any) -> None:
    if not getattr(group.solver, "soft_exact", True):
        raise NotApplicable("its log-partition only bounds")


def compare_gradients(group: Any, w: Weights, rng: np.random.Generator, kind: str) -> None:
    """Central differences along random directions in costs and in weights."""
    crf, truth = model_of(group, w, rng)
    plan = LossPlan(crf, truth, kind=kind, decomposition=UnderTest(group.solver), max_iter=0)
    costs = costs_of(crf, rng)
    at = plan(costs, w)
    change = costs_of(crf, rng)
    sides = [plan(costs + sign * STEP * change, w).value for sign in (1, -1)]
    _expect_slope(np.sum(at.unary * change), sides, f"the {kind} loss in unary costs")
    direction = {name: rng.normal(size=value.shape) for name, value in w.items()}
    if direction:
        sides = [plan(costs, moved(w, direction, sign * STEP)).value for sign in (1, -1)]
        _expect_slope(dot(at.weights, direction), sides, f"the {kind} loss in the weights")
    for size in MOVES:
        there = plan(costs + size * change, moved(w, direction, size))
        linear = np.sum(at.unary * change) + (dot(at.weights, direction) if direction else 0.0)
        expect(
            there.value >= at.value + size * linear - DIFFERENCE * (1.0 + abs(there.value)),
            f"the {kind} loss, convex in costs and weights, lies below its tangent: "
            f"{there.value} < {at.value + size * linear} after a move of size {size}",
        )


def nested(function: Any, *nests: Any) -> Any:
    """`function` of the arrays at the same places of tuples and lists of arrays."""
    if isinstance(nests[0], (list, tuple)):
        return type(nests[0])(nested(function, *parts) for parts in zip(*nests))
    return function(*nests)


def other_numbers(solver: Any, block: Any, w: Weights, rng: np.random.Generator) -> tuple[Any, Any]:
    """(random numbers of the block's own, a block with them that the solver takes)."""
    own = block.own_costs()
    if own is None:
        raise NotApplicable(f"{type(block).__name__} has no numbers to differentiate in")
    zero = block.cost_gradient(np.zeros(int(own.sum())), w)
    for sign in (1.0, -1.0):
        numbers = nested(lambda a, sign=sign: sign * (0.2 + rng.random(np.shape(a))), zero)
        try:
            fed = block.with_costs(numbers)
        except TypeError as error:
            raise NotApplicable(str(error)) from None
        except ValueError:  # of the other sign
            continue
        if solver.refuses(fed) is None:
            return numbers, fed
    raise NotApplicable(
        f"{type(solver).__name__} takes no {type(block).__name__} of random numbers"
    )


def compare_block_gradients(group: Any, w: Weights, rng: np.random.Generator, kind: str) -> None:
    """A central difference along a random direction in the numbers of the block itself."""
    crf, _ = model_of(group, w, rng)
    numbers, fed = other_numbers(group.solver, crf.blocks[0], w, rng)
    costs = costs_of(crf, rng)
    options: Any = {"kind": kind, "decomposition": UnderTest(group.solver), "max_iter": 0}
    truth = random_labels(rng, crf)

    def loss(block: Any) -> Any:
        other = crf.copy()
        other.blocks[0] = block
        return LossPlan(other, truth, **options)(costs, w)

    change = nested(lambda a: rng.normal(size=np.shape(a)), numbers)
    sides = []
    for step in (STEP, -STEP):
        moved_numbers = nested(lambda a, d, step=step: a + step * d, numbers, change)
        sides.append(loss(fed.with_costs(moved_numbers)).value)
    products: list[float] = []
    nested(lambda a, d: products.append(float(np.sum(a * d))), loss(fed).blocks[0], change)
    _expect_slope(sum(products), sides, f"the {kind} loss in the block's own numbers")


@check_of(LAYER)
def check_layer_hinge_in_blocks(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """The same in strengths, tables and features of the block itself, for the hinge."""
    compare_block_gradients(group, w, rng, "hinge")


@check_of(LAYER, needs="log_partition")
def check_layer_likelihood_in_blocks(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """The same in strengths, tables and features of the block itself, for the likelihood."""
    _exact_soft(group)
    compare_block_gradients(group, w, rng, "likelihood")


@check_of(LAYER)
def check_layer_hinge_gradients(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Gradients of the hinge, from the minimisers, agree with differences of the minima."""
    compare_gradients(group, w, rng, "hinge")


@check_of(LAYER, needs="log_partition")
def check_layer_likelihood_gradients(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Gradients of the likelihood, from the marginals, agree with differences of soft minima."""
    _exact_soft(group)
    compare_gradients(group, w, rng, "likelihood")


@check_of(LAYER)
def check_layer_batches(group: Any, w: Weights, rng: np.random.Generator) -> None:
    """Two models in one batch have the losses and gradients of each on its own."""
    crf, truth = model_of(group, w, rng)
    decomposition = UnderTest(group.solver)
    costs = [costs_of(crf, rng) for _ in range(2)]
    plan = LossPlan([crf, crf], [truth, truth], decomposition=decomposition, max_iter=0)
    both = plan(costs, w)
    for k, own in enumerate(costs):
        fed = crf.copy()
        fed.unary = crf.flat(own)
        alone = structured_loss(fed, truth, w, decomposition=decomposition, max_iter=0)
        expect_close(both.value[k], alone.value, f"the loss of model {k} of two in a batch")
        expect_close(both.unary[k], alone.unary, f"the gradient of model {k} of two in a batch")
