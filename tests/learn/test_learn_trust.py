"""What training promises: a checkpoint of its own problem alone, an objective of its weights, and
errors that name the pass.
"""

import enum
from collections import deque

import numpy as np
import pytest
from learn_cases import chain_samples

import gmlearn as gm
from gmlearn._utils.identify import identify


def problem(contrast=1.0, table=0.5, constant=0.0, truth=0):
    """A chain with fixed and learnt edges."""
    rng = np.random.default_rng(3)
    crf = gm.CRF(5, 2).add_unary(rng.normal(size=(5, 2)))
    edges = [[0, 1], [1, 2], [2, 3], [3, 4]]
    crf.add(gm.Potts(edges, np.full(4, contrast), weight="s"))
    crf.add(gm.Table([[0, 2]], [[0, table], [table, 0]]))
    crf.constant = constant
    return [gm.Sample(crf, [0, 0, 1, 1, truth])]


def partly_known(allowed=None, start=None):
    """The chain with one variable whose label is not given."""
    (sample,) = problem()
    return [gm.Sample(sample.crf, sample.labels, allowed=allowed, start=start)]


ANY = np.ones((5, 2), bool)
KNOWN = np.eye(2, dtype=bool)[[0, 0, 1, 1, 0]]
TWO = KNOWN | (np.arange(5) < 2)[:, None]


def error(w):
    return float(np.abs(w["s"]))


def other_error(w):
    return float(np.abs(w["s"])) + 1.0


class Band(gm.ConvexSet):
    """|w| <= width, by a projection of its own."""

    def __init__(self, width):
        self.width = width

    def project(self, w):
        return np.clip(w, -self.width, self.width)


SAME = dict(samples=problem(), validation=error)
CHANGES = [
    ("constraints", dict(constraints=gm.Box(-5, 5)), dict(constraints=gm.Box(-0.1, 0.1))),
    ("constraints", dict(constraints=gm.Fixed(0.1)), dict(constraints=gm.Fixed(0.2))),
    ("constraints", dict(constraints=Band(1.0)), dict(constraints=Band(2.0))),
    ("constraints", {}, dict(constraints=gm.NonNegative())),
    ("regularizer", {}, dict(regularizer=gm.L2(0.5))),
    ("blocks 'table'", {}, dict(samples=problem(table=0.6))),
    ("blocks 'potts'", {}, dict(samples=problem(contrast=2.0))),
    ("unary costs", {}, dict(samples=problem(constant=1.0))),
    ("labels", {}, dict(samples=problem(truth=1))),
    ("labels", dict(samples=partly_known(ANY)), dict(samples=partly_known(TWO))),
    (
        "first completions",
        dict(samples=partly_known(TWO, [0, 0, 1, 1, 0])),
        dict(samples=partly_known(TWO, [1, 0, 1, 1, 0])),
    ),
    ("loss", dict(loss=gm.WeightedHamming([1, 2])), dict(loss=gm.WeightedHamming([1, 3]))),
    ("decomposition", {}, dict(decomposition="per-clique")),
    ("validation", {}, dict(validation=other_error)),
    ("validation", {}, dict(validation=None)),
    ("validation", {}, dict(validation=problem())),
    ("patience", {}, dict(patience=3)),
    ("tol", {}, dict(tol=1e-3)),
    ("initial weights", {}, dict(weights={"s": 1.0})),
    ("temperature", dict(temperature=1.0), dict(temperature=2.0)),
]


@pytest.mark.parametrize("what, first, then", CHANGES, ids=[f"{i}" for i in range(len(CHANGES))])
def test_a_checkpoint_of_another_problem_names_what_differs(what, first, then, tmp_path):
    how = dict(SAME, checkpoint=tmp_path / "c.npz", checkpoint_every=1, show_progress=False)
    first = how | first
    model = gm.train(max_iter=3, **first)
    again = gm.train(max_iter=3, **first)
    assert again.weights["s"] == model.weights["s"]
    with pytest.raises(ValueError, match=f"belongs to another training problem.*{what}"):
        gm.train(max_iter=3, **(first | then))


SWAPS = {
    "one number": ([[3, 5]], [1.0]),
    "two signs of a row": ([[3, 1], [3, 9]], None),
    "two signs of a column": ([[3, 1], [7, 1]], None),
    "a rectangle": ([[2, 4], [2, 6], [8, 4], [8, 6]], [0.5, -0.5, -0.5, 0.5]),
}


@pytest.mark.parametrize("size", [11, 300])
@pytest.mark.parametrize("change", SWAPS)
def test_arrays_are_told_apart(size, change):
    array = np.random.default_rng(size).normal(size=(size, size))
    other = array.copy()
    rows, columns = np.transpose(SWAPS[change][0])
    moves = SWAPS[change][1]
    # quarters, so that sums of rows and columns stay the same to the bit
    array[rows, columns] = 0.25
    other[rows, columns] = -0.25 if moves is None else 0.25 + np.array(moves)
    assert identify(array) == identify(array.copy())
    assert identify(array) != identify(other)
    assert identify(array[::-1]) != identify(array)


def test_structured_changes_do_not_cancel():
    """Pairs +d, -d, signs, swapped blocks and rolled rows, at all distances."""
    rng = np.random.default_rng(5)
    array = rng.integers(-3, 4, size=4096).astype(float)
    others = [np.roll(array, k) for k in (1, 2, 64, 127, 128, 129, 1024, 2048)]
    others += [array.reshape(64, 64).T.ravel(), array[::-1], -array]
    others += [np.concatenate([array[h:], array[:h]]) for h in (8, 16, 256)]
    for distance in (1, 7, 8, 16, 64, 127, 128, 129, 256, 1024):
        for place in rng.integers(0, 4096 - distance, 40):
            for d in (1.0, 2.0**-30, 2.0**40):
                other = array.copy()
                other[[place, place + distance]] += [d, -d]
                others.append(other)
            other = array.copy()
            other[[place, place + distance]] = other[[place + distance, place]]
            others.append(other)
            other = array.copy()
            other[[place, place + distance]] *= -1
            others.append(other)
    texts = {identify(other) for other in others}
    assert identify(array) in texts  # two equal numbers may have been swapped, or zeros negated
    assert len(texts) == len({other.tobytes() for other in others})


def test_kinds_of_memory_are_hashed_alike():
    array = np.arange(3 * 7 * 129.0).reshape(3, 7, 129)
    raw = np.empty(array.nbytes + 4, np.uint8)
    unaligned = raw[4:].view(float).reshape(array.shape)
    unaligned[...] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(array), np.repeat(array, 2, 1)[:, ::2], unaligned, frozen):
        assert identify(same) == identify(array)
    kinds = [np.int8, np.int16, np.int32, np.int64, np.uint64, np.float32, complex, ">f8"]
    others = [array.astype(kind) for kind in kinds]
    others += [array.reshape(7, 3, 129), array.ravel(), array.view(np.int64), array[..., :-1]]
    small = [array.ravel()[:n].astype(np.int8) for n in range(1020, 1040)]
    assert len({identify(other) for other in [array, *others, *small]}) == 33


class Bag(dict):
    """An object with items and attributes."""


class Red(enum.Enum):
    ONE = 1


class Blue(enum.Enum):
    ONE = 1


def closing(level):
    def inner(again=True):
        return inner if again else level

    return inner


def test_objects_are_told_apart():
    """By class, items, attributes and what functions close over, also in rings."""
    ring = [1]
    ring.append(ring)
    bag = Bag(a=1)
    bag.extra = 1
    things = [
        Red.ONE,
        Blue.ONE,
        deque([1]),
        deque([2]),
        Bag(a=1),
        Bag(a=2),
        bag,
        {"a": 1},
        {1: "a"},
    ]
    things += [
        {"a", "b"},
        {"a", "c"},
        ["a", "b"],
        ["ab"],
        ["a", ["b"]],
        ring,
        closing(1),
        closing(2),
    ]
    things += [np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0]), np.array([1, 2])]
    things += [np.array(["a", None]), np.array(["a", 1]), 1, True, 1.0, "1", b"1", None, -0.0, 0.0]
    assert len({identify(thing) for thing in things}) == len(things)
    assert identify(np.float64(0.5)) == identify(0.5)


def test_a_function_that_cannot_be_identified_is_told(tmp_path):
    with pytest.warns(UserWarning, match="validation cannot be identified"):
        gm.train(problem(), validation=len, checkpoint=tmp_path / "c.npz", max_iter=2)


def test_nothing_is_hashed_without_a_checkpoint(monkeypatch):
    from gmlearn.learn import run

    def refuse(*_):
        raise AssertionError("hashed")

    monkeypatch.setattr(run, "problem_fingerprint", refuse)
    gm.train(problem(), max_iter=1)


@pytest.mark.parametrize("optimizer", ["bcfw", "subgradient", "cutting-plane"])
def test_the_objective_belongs_to_the_weights(optimizer):
    samples = chain_samples(0)
    for validation in (None, lambda w: float(np.abs(w["pair"]).sum())):
        how = dict(regularizer=gm.L2(0.05), decomposition="trees", show_progress=False)
        model = gm.train(samples, optimizer=optimizer, validation=validation, max_iter=30, **how)
        fixed = {name: gm.Fixed(value) for name, value in model.weights.items()}
        there = gm.train(samples, constraints=fixed, max_iter=2, **how)
        # on trees F does not depend on multipliers
        assert model.objective == pytest.approx(there.objective, rel=1e-6)


def test_the_objective_of_no_pass_is_that_of_the_start():
    samples = chain_samples(0)
    model = gm.train(samples, max_iter=0, decomposition="trees")
    assert (
        model.objective == gm.train(samples, max_iter=1, decomposition="trees").history.objective[0]
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float64("nan")])
def test_answers_that_are_no_numbers_name_the_pass(bad):
    how = dict(optimizer="subgradient", max_iter=5, tol=-1)
    answers = iter([0.0, 0.0, bad])
    with pytest.raises(ValueError, match=r"validation: expected a finite error, got .* in pass 3"):
        gm.train(problem(), validation=lambda w: next(answers), **how)
    answers = iter([None, 0.0, bad])
    with pytest.raises(ValueError, match=r"callbacks: <lambda> answered .* in pass 3"):
        gm.train(problem(), callbacks=[lambda *_: next(answers)], **how)


@pytest.mark.parametrize("path", ["nowhere/c.npz", "."])
def test_a_checkpoint_that_cannot_be_written_is_refused_first(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="checkpoint: expected"):
        gm.train(problem(), checkpoint=path, callbacks=[lambda *_: pytest.fail("too late")])


@pytest.mark.parametrize("path", [True, 1, b"m.npz", None])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError, match="path: expected the name of a file"):
        gm.load(path)


def test_what_python_keeps_in_a_class_is_no_part_of_it():
    def add(self, x):
        return x + 1

    plain = type("Kept", (), {"add": add})
    cached = type("Kept", (), {"add": add, "__annotations_cache__": {}})
    assert identify(plain) == identify(cached)
