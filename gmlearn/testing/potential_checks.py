"""Checks of potentials: energy = const + w . features, exact infinities, take, tables, and what
`bind` refuses.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from gmlearn.io import read, write
from gmlearn.model import CRF
from gmlearn.potentials import Block, RaggedBlock, Table, Unary
from gmlearn.registry import registry
from gmlearn.testing.brute_force import clique_tables
from gmlearn.testing.kit import (
    NotApplicable,
    cases_of,
    check_of,
    dot,
    expect,
    expect_close,
    expect_features,
)
from gmlearn.testing.models import random_weights

POTENTIAL = "potential"
Weights = dict[str, np.ndarray]
#: finite energies of the small examples beyond this stand in for a hard constraint
LARGEST = 1e6


@cases_of(POTENTIAL)
def potential_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Block, Weights]]:
    """(block, w): a bound block itself; a class's own examples; else those of the slave solvers
    that use the class.
    """
    if isinstance(thing, Block):
        if thing.states is None:
            raise ValueError(f"{thing} is not bound; use block.bind(n_states)")
        yield thing, random_weights(rng, thing)
        return
    own = getattr(thing, "examples", None)
    solvers = [] if callable(own) else registry.objects("slave solver")
    borrowed = [
        (block, w)
        for solver in solvers
        for block, w in solver.examples(rng)
        if type(block) is thing
    ]
    for block, w in [*_built_in_examples(thing, rng), *(own(rng) if callable(own) else borrowed)]:
        yield block, {name: np.asarray(value, float) for name, value in w.items()}


def _built_in_examples(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Block, Weights]]:
    """What the slave solvers' examples leave out of the built-in potentials."""
    if thing is Unary:
        blocks = [
            Unary(rng.normal(size=(3, 2)), "u"),
            Unary(rng.normal(size=(2, 3, 4)), "u", variables=[2, 0]),
        ]
        yield from (
            (b, random_weights(rng, b)) for b in (block.bind(np.full(3, 3)) for block in blocks)
        )
    if thing is Table:
        pair = np.where(rng.random((2, 3, 2)) < 0.3, np.inf, rng.normal(size=(2, 3, 2)))
        yield Table([[1, 0], [1, 2]], pair).bind(np.array([2, 3, 2])), {}


def member_labels(block: Block, rng: np.random.Generator) -> np.ndarray:
    """Random labels of all members, in the shape that `energy` expects."""
    return block.shape_members(rng.integers(0, block.member_states))


def labels_of(block: Block, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The labels of the cliques at `index` out of labels `x` of the whole block."""
    flat, ptr = x.ravel(), block.indptr
    parts = [flat[ptr[m] : ptr[m + 1]] for m in index]
    return block.take(index).shape_members(
        np.concatenate(parts) if parts else np.zeros(0, np.int64)
    )


@check_of(POTENTIAL)
def check_energy_is_const_plus_w_features(
    block: Block, w: Weights, rng: np.random.Generator
) -> None:
    """energy(x, w) = energy(x, 0) + w . features(x), clique by clique."""
    zero = {name: np.zeros_like(value) for name, value in w.items()}
    for _ in range(5):
        x = member_labels(block, rng)
        const, energy = block.energy(x, zero), block.energy(x, w)
        expect(
            np.shape(energy) == (len(block),),
            f"energy has shape {np.shape(energy)}, expected {(len(block),)}",
        )
        for m in range(len(block)):
            one = block.take(np.array([m]))
            found = dot(one.features(labels_of(block, x, np.array([m]))), w)
            expect_close(
                energy[m], const[m] + found, f"energy of clique {m} against const + w . features"
            )
        if np.isfinite(const).all():
            expect_close(
                energy.sum(),
                const.sum() + dot(block.features(x), w),
                "energy against const + w . features",
            )


@check_of(POTENTIAL)
def check_energy_is_linear_in_w(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """energy(x, a) + energy(x, b) - energy(x, 0) = energy(x, a + b), and energy(x, -2 a) follows
    the same line.
    """
    if not w:
        raise NotApplicable("the potential has no weights")
    other = random_weights(rng, block)
    x = member_labels(block, rng)

    ok = np.isfinite(block.energy(x, {name: np.zeros_like(value) for name, value in w.items()}))

    def at(a: float, b: float) -> np.ndarray:
        return block.energy(x, {name: a * w[name] + b * other[name] for name in w})[ok]

    const = at(0, 0)
    expect_close(at(1, 0) + at(0, 1) - const, at(1, 1), "energy at w + w'")
    expect_close(const - 2 * (at(1, 0) - const), at(-2, 0), "energy at -2 w")


@check_of(POTENTIAL)
def check_features_fit_segments(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """features have the names and shapes of `segments`."""
    shapes = {
        name: np.shape(value) for name, value in block.features(member_labels(block, rng)).items()
    }
    expect(
        shapes == block.segments(),
        f"features have shapes {shapes}, segments() says {block.segments()}",
    )
    given = {name: np.shape(value) for name, value in w.items()}
    expect(
        given == block.segments(),
        f"the example's weights have shapes {given}, segments() says {block.segments()}",
    )


@check_of(POTENTIAL)
def check_weighted_features_are_linear(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """features(x, weight) = sum of weight_m times the features of clique m."""
    x, weight = member_labels(block, rng), rng.normal(size=len(block))
    total = {name: np.zeros(shape) for name, shape in block.segments().items()}
    for m in range(len(block)):
        for name, value in (
            block.take(np.array([m])).features(labels_of(block, x, np.array([m]))).items()
        ):
            total[name] = total[name] + weight[m] * value
    expect_features(block.features(x, weight), total, "features(x, weight)")


@check_of(POTENTIAL)
def check_clique_features_sum_to_features(
    block: Block, w: Weights, rng: np.random.Generator
) -> None:
    """clique_features has a leading M and adds up to features, in groups to features_by."""
    x = member_labels(block, rng)
    parts = block.clique_features(x)
    shapes = {name: np.shape(value) for name, value in parts.items()}
    expected = {name: (len(block), *shape) for name, shape in block.segments().items()}
    expect(shapes == expected, f"clique_features have shapes {shapes}, expected {expected}")
    expect_features(
        {name: value.sum(axis=0) for name, value in parts.items()},
        block.features(x),
        "sum of clique_features",
    )
    group = rng.integers(0, 3, len(block))
    sums = {
        name: np.stack([value[group == g].sum(axis=0) for g in range(4)])
        for name, value in parts.items()
    }
    expect_features(block.features_by(x, group, 4), sums, "features_by")


@check_of(POTENTIAL)
def check_expected_energy(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """Expectations over independent members are those of enumeration, also where some labels have
    no probability.
    """
    if block.expected_energy is None:
        raise NotApplicable("it does not define expected_energy")
    states = block.member_states
    owner = np.repeat(np.arange(len(block)), np.diff(block.indptr))
    exists = np.arange(block.max_states) < states[:, None]
    for sure in (0.0, 0.4):
        q = np.where(exists & (rng.random(exists.shape) >= sure), rng.random(exists.shape), 0.0)
        q[np.arange(len(q)), rng.integers(0, states)] += 0.1
        q /= q.sum(axis=1, keepdims=True)
        found = np.asarray(block.expected_energy(block.shape_members(q), w))
        expect(
            found.shape == block.shape_members(q).shape,
            f"expected_energy has shape {found.shape}, that of q is {block.shape_members(q).shape}",
        )
        for i, row in enumerate(found.reshape(q.shape)):
            lo, hi = block.indptr[owner[i]], block.indptr[owner[i] + 1]
            expect_close(
                row[: states[i]],
                _expected_by_enumeration(block.take(owner[i : i + 1]), q[lo:hi], i - lo, w),
                f"expected energies of the labels of member {i - lo} of clique {owner[i]}",
            )


def _expected_by_enumeration(block: Block, q: np.ndarray, member: int, w: Weights) -> np.ndarray:
    """Expected energies of the labels of one member of the one clique of a block."""
    shape = tuple(block.member_states.tolist())
    x = np.indices(shape).reshape(len(shape), -1).T
    others = [j for j in range(len(shape)) if j != member]
    chance = q[others, x[:, others]].prod(axis=1)
    many = block.take(np.zeros(len(x), np.int64))
    energy = np.where(chance > 0, many.energy(many.shape_members(x.ravel()), w), 0.0)
    with np.errstate(invalid="ignore"):
        part = np.where(chance > 0, chance * energy, 0.0)
    return np.array([part[x[:, member] == a].sum() for a in range(shape[member])])


@check_of(POTENTIAL)
def check_joined_blocks_keep_their_energies(
    block: Block, w: Weights, rng: np.random.Generator
) -> None:
    """Two copies side by side, as `gm.join` makes them of many models, cost what each costs."""
    shift = int(block.members.max(initial=-1)) + 1
    if not block.fits(block):
        raise NotApplicable("its blocks are not joined")
    both, x, y = block.join([block, block], [0, shift]), *(member_labels(block, rng) for _ in "ab")
    expect(
        np.array_equal(both.members, np.concatenate([block.members, block.members + shift])),
        "join: the variables of the second block are not shifted",
    )
    expect_close(
        both.energy(both.shape_members(np.concatenate([np.ravel(x), np.ravel(y)])), w),
        np.concatenate([block.energy(x, w), block.energy(y, w)]),
        "energies of joined blocks",
    )


@check_of(POTENTIAL)
def check_infinity_is_exact(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """A hard constraint is +inf whatever the weights; no NaN, no -inf, no large number that
    stands in for inf.
    """
    zero = {name: np.zeros_like(value) for name, value in w.items()}
    large = {name: 1e3 * value for name, value in w.items()}
    tables = [clique_tables(block, weights) for weights in (w, zero, large)]
    for m, (table, const, scaled) in enumerate(zip(*tables)):
        expect(~np.isnan(table) & (table > -np.inf), f"clique {m} has an energy NaN or -inf")
        expect(
            np.array_equal(np.isinf(table), np.isinf(const))
            and np.array_equal(np.isinf(table), np.isinf(scaled)),
            f"which labellings of clique {m} are forbidden depends on the weights",
        )
        top = np.abs(table[np.isfinite(table)]).max(initial=0.0)
        expect(
            top < LARGEST,
            f"clique {m} has an energy of {top:g}: a hard constraint must be inf, not a large "
            f"number",
        )


@check_of(POTENTIAL)
def check_repairs_are_feasible(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """`repair` makes any labelling one that exists, and that breaks no hard constraint."""
    repair = getattr(block, "repair", lambda x, w: None)
    possible = np.array([np.isfinite(table).any() for table in clique_tables(block, w)])
    for _ in range(5):
        fixed = repair(member_labels(block, rng), w)
        if fixed is None:
            raise NotApplicable("the potential has no repair of its own")
        labels = np.asarray(fixed).ravel()
        expect(
            len(labels) == len(block.members)
            and np.all((labels >= 0) & (labels < block.member_states)),
            f"repair returns labels that do not exist: {labels.tolist()}",
        )
        kept = np.isfinite(block.energy(block.shape_members(labels), w))
        expect(kept | ~possible, f"repair breaks a hard constraint: labels {labels.tolist()}")


@check_of(POTENTIAL)
def check_inputs_are_untouched(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """energy, features and table write neither to labels nor to weights."""
    x = member_labels(block, rng)
    labels = x.copy()
    weights = {name: np.array(value) for name, value in w.items()}
    block.energy(labels, weights)
    block.features(labels)
    block.clique_features(labels)
    expect(np.array_equal(labels, x), "the labels were written to")
    expect(all(np.array_equal(weights[name], w[name]) for name in w), "the weights were written to")


@check_of(POTENTIAL)
def check_take(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """take(index), with repeats, in any order, or empty, is the same cliques."""
    x = member_labels(block, rng)
    energy, n = block.energy(x, w), len(block)
    for index in (
        np.arange(n)[::-1],
        rng.integers(0, max(n, 1), 2 * n + 1) if n else np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    ):
        part = block.take(index)
        expect(len(part) == len(index), f"take of {len(index)} cliques has {len(part)}")
        expect(
            len(part.member_states) == len(part.members),
            "take: states and members differ in length",
        )
        expect_close(
            part.energy(labels_of(block, x, index), w),
            energy[index],
            f"energy of take({index.tolist()})",
        )


@check_of(POTENTIAL)
def check_table_equals_energies(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """table(w) holds the energies of all labellings, inf beyond a variable's states."""
    for m, truth in enumerate(clique_tables(block, w)):
        one = block.take(np.array([m]))
        table = one.table(w)
        expect(table.shape == (1, *[one.max_states] * truth.ndim), f"table has shape {table.shape}")
        expected = np.full(table.shape[1:], np.inf)
        expected[tuple(slice(s) for s in truth.shape)] = truth
        expect_close(table[0], expected, f"table of clique {m}")


@check_of(POTENTIAL)
def check_pairwise_equals_table(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """Of edges: pairwise(w) gives scale * values[start + a * stride + b] = energy of (a, b),
    also read as its kind.
    """
    if block.arity != 2 or isinstance(block, RaggedBlock):
        raise NotApplicable("not a block of edges")
    form = block.pairwise(w)
    for m, truth in enumerate(clique_tables(block, w)):
        a, b = np.indices(truth.shape)
        expect_close(
            form.scale[m] * form.values[form.start[m] + a * form.stride[m] + b],
            truth,
            f"pairwise form of edge {m}",
        )
        by_kind = {1: (a != b).astype(float), 2: np.minimum(np.abs(a - b), form.cut)}.get(form.kind)
        if by_kind is not None:
            expect_close(form.scale[m] * by_kind, truth, f"edge {m} read as kind {form.kind}")


@check_of(POTENTIAL)
def check_comes_back_from_a_file(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """The block that is read from a file has the energies of the one that was written."""
    if registry_class(block) is not type(block):
        raise NotApplicable("the class is not registered")
    crf = model_of(block)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.npz")
        try:
            write(crf, path)
        except ValueError as reason:
            raise NotApplicable(f"it cannot be stored: {reason}") from None
        again = read(path).blocks[0]
    expect(again.segments() == block.segments(), "other weight segments come back from a file")
    for _ in range(3):
        x = member_labels(block, rng)
        expect_close(again.energy(x, w), block.energy(x, w), "energy after a file")


def registry_class(block: Block) -> type | None:
    """The class that is registered under the block's name."""
    found = [e.obj for e in registry.entries(POTENTIAL) if e.name == block.name]
    return found[0] if found else None


def model_of(block: Block) -> CRF:
    """A model with this block alone."""
    n_states = np.ones(int(block.members.max(initial=-1)) + 1, np.int64)
    n_states[block.members] = block.member_states
    crf = CRF(n_states)
    crf.add(block)
    return crf


@check_of(POTENTIAL)
def check_bind_refuses_bad_variables(block: Block, w: Weights, rng: np.random.Generator) -> None:
    """A variable that the model lacks, a negative one, and one named twice in a clique:
    ValueError.
    """
    n_states = np.ones(int(block.members.max()) + 1, np.int64)
    n_states[block.members] = block.member_states
    bad = [("a variable that is too large", 0, len(n_states)), ("a negative variable", 0, -1)]
    sizes = np.diff(block.indptr)
    if sizes.max(initial=0) > 1:
        first = int(block.indptr[int(sizes.argmax())])
        bad.append(("a variable named twice", first, int(block.members[first + 1])))
    for what, place, value in bad:
        try:
            with_member(block, place, value).bind(n_states)
        except ValueError:
            continue
        raise AssertionError(f"bind accepts {what}")


def with_member(block: Block, place: int, value: int) -> Block:
    """An unbound copy of the block with another variable at one place."""
    other: Any = copy.copy(block)
    members = block.members.copy()
    members[place] = value
    if isinstance(block, RaggedBlock):
        other._members = members
    else:
        other.variables = members.reshape(block.variables.shape)
    other.states = None
    return other
