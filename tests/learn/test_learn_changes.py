"""A checkpoint is refused wherever an argument of anything that training is made of has changed."""

import functools

import numba
import numpy as np
import pytest

import gmlearn as gm

CLIQUES = [[0, 1, 2], [3, 4, 5]]
EDGES = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
TRUTH = [0, 0, 1, 1, 2, 2]
FEATURES = np.arange(10.0).reshape(5, 2)
REGIONS = np.arange(4.0).reshape(2, 2)
ALL = np.ones((6, 3), bool)
SOME = ALL & (np.arange(3) != (np.array(TRUTH)[:, None] + 1) % 3)


def changed(array, place=0, by=0.25):
    """A copy with one other number."""
    found = np.array(array, float)
    found.flat[place] += by
    return found


def samples(*blocks, n=2, **fields):
    """Chains with learnt and further edges; `fields` are those of the first sample."""
    made = []
    for k in range(n):
        rng = np.random.default_rng(k)
        crf = gm.CRF(6, 3).add_unary(rng.normal(size=(6, 3)))
        crf.add(gm.Unary(rng.normal(size=(6, 2)), "u"))
        crf.add(gm.Potts(EDGES, weight="s"))
        for block in blocks:
            crf.add(block)
        made.append(gm.Sample(crf, TRUTH, **(fields if k == 0 else {})))
    return made


def other(blocks, **fields):
    """Samples with one more block, by class or by name and arguments."""
    kind, arguments = blocks
    if isinstance(kind, str):
        crf = gm.CRF(6, 3)
        return dict(samples=samples(crf.add(kind, **arguments), **fields))
    return dict(samples=samples(kind(**arguments), **fields))


def block(what, kind, arguments, **changes):
    """A change of each argument in turn."""
    name = kind if isinstance(kind, str) else kind.name
    for key, value in changes.items():
        first = other((kind, arguments))
        then = other((kind, {**arguments, key: value}))
        yield f"{what} {key}", f"blocks '{name}'", first, then


def labelled(last):
    """Samples of which the last label of the second differs."""
    first, second = samples()
    return [first, gm.Sample(second.crf, [*TRUTH[:5], last])]


def weighted(sign, w):
    return sign * float(np.abs(w["s"]))


def validate_by(factor):
    return lambda w: factor * float(np.abs(w["s"]))


def jitted(factor):
    return numba.njit(lambda w: np.maximum(w, factor))


class Callable:
    """A validation that is an object."""

    def __call__(self, w):
        return 0.0


class OtherCallable:
    def __call__(self, w):
        return 1.0


def complete(sample, weights):
    return sample.labels


def complete_too(sample, weights):
    return np.array(sample.labels)


def start(sample):
    return np.zeros(6, int)


def start_too(sample):
    return np.ones(6, int)


def set_class(low):
    """A class whose functions close over a number."""

    class Above(gm.ConvexSet):
        def project(self, w):
            return np.maximum(w, low)

    return Above()


def edited_class(low):
    """A class of the same name with other code, as after editing a script."""

    class Above(gm.ConvexSet):
        def project(self, w):
            return np.maximum(w, 0.0)

    if low:
        Above.project.__code__ = (lambda self, w: np.maximum(w, 0.5)).__code__
    return Above()


def constant_class(level):
    """A class of the same name with another constant."""
    return type("Level", (Level,), {"level": level, "__module__": __name__})()


class Level(gm.ConvexSet):
    level = 0.0

    def project(self, w):
        return np.maximum(w, self.level)


R, C, L, D = "regularizer", "constraints", "loss", "decomposition"
HIDDEN = dict(hidden=[False] * 5 + [True])
CHANGES = [
    # regularisers
    ("mu", R, dict(regularizer=gm.L2(1.0)), dict(regularizer=gm.L2(1.0 + 1e-12))),
    ("tau", R, dict(regularizer=gm.L1(1.0)), dict(regularizer=gm.L1(2.0))),
    ("elastic mu", R, dict(regularizer=gm.ElasticNet(1, 2)), dict(regularizer=gm.ElasticNet(2, 2))),
    ("elastic", R, dict(regularizer=gm.ElasticNet(1, 2)), dict(regularizer=gm.ElasticNet(1, 3))),
    ("swapped", R, dict(regularizer=gm.ElasticNet(1, 2)), dict(regularizer=gm.ElasticNet(2, 1))),
    ("group tau", R, dict(regularizer=gm.GroupL2(1.0)), dict(regularizer=gm.GroupL2(2.0))),
    (
        "groups",
        R,
        dict(regularizer={"u": gm.GroupL2(1.0, groups=[0, 0, 1, 1, 2, 2])}),
        dict(regularizer={"u": gm.GroupL2(1.0, groups=[0, 1, 1, 0, 2, 2])}),
    ),
    ("kind", R, dict(regularizer=gm.L2(1.0)), dict(regularizer=gm.ElasticNet(1.0, 0.0))),
    ("none", R, dict(regularizer=gm.L2(1.0)), dict(regularizer=gm.NoRegularizer())),
    ("segment", R, dict(regularizer={"s": gm.L2(2.0)}), dict(regularizer={"u": gm.L2(2.0)})),
    # sets
    ("low", C, dict(constraints=gm.Box(0, 1)), dict(constraints=gm.Box(0.1, 1))),
    ("high", C, dict(constraints=gm.Box(0, 1)), dict(constraints=gm.Box(0, 2))),
    (
        "low array",
        C,
        dict(constraints={"u": gm.Box(np.zeros((3, 2)))}),
        dict(constraints={"u": gm.Box(changed(np.zeros((3, 2)), 5, -1e-9))}),
    ),
    ("no box", C, dict(constraints=gm.Box(0)), dict(constraints=gm.NonNegative())),
    ("total", C, dict(constraints=gm.Simplex(1)), dict(constraints=gm.Simplex(2))),
    ("fixed", C, dict(constraints={"s": gm.Fixed(1)}), dict(constraints={"s": gm.Fixed(2)})),
    (
        "fixed sign",
        C,
        dict(constraints={"u": gm.Fixed([[1, -1], [2, -2], [0, 0]])}),
        dict(constraints={"u": gm.Fixed([[-1, 1], [-2, 2], [0, 0]])}),
    ),
    (
        "projection",
        C,
        dict(constraints=lambda w: np.maximum(w, 0.0)),
        dict(constraints=lambda w: np.maximum(w, 1.0)),
    ),
    (
        "projection's closure",
        C,
        dict(constraints=gm.Projection(functools.partial(np.clip, a_min=0, a_max=1))),
        dict(constraints=gm.Projection(functools.partial(np.clip, a_min=0, a_max=2))),
    ),
    (
        "compiled projection",
        C,
        dict(constraints=gm.Projection(jitted(0.0))),
        dict(constraints=gm.Projection(jitted(1.0))),
    ),
    ("code of a class", C, dict(constraints=edited_class(0)), dict(constraints=edited_class(1))),
    ("closure of a class", C, dict(constraints=set_class(0)), dict(constraints=set_class(0.5))),
    (
        "constant of a class",
        C,
        dict(constraints=constant_class(0.0)),
        dict(constraints=constant_class(0.5)),
    ),
    ("set of", C, dict(constraints={"s": gm.Box(0)}), dict(constraints={"u": gm.Box(0)})),
    # losses
    ("scale", L, dict(loss=gm.Hamming(1)), dict(loss=gm.Hamming(2))),
    (
        "loss weights",
        L,
        dict(loss=gm.Hamming(1, [1, 1, 1, 1, 1, 1])),
        dict(loss=gm.Hamming(1, [1, 1, 1, 1, 1, 2])),
    ),
    (
        "label weights",
        L,
        dict(loss=gm.WeightedHamming([1, 2, 3])),
        dict(loss=gm.WeightedHamming([1, 3, 2])),
    ),
    ("truncation", L, dict(loss=gm.LabelDistance(1)), dict(loss=gm.LabelDistance(2))),
    ("distance", L, dict(loss=gm.LabelDistance(2, 1)), dict(loss=gm.LabelDistance(2, 3))),
    ("tolerance", L, dict(loss=gm.LabelDistance(2)), dict(loss=gm.LabelDistance(2, 1, 1.0))),
    ("other loss", L, {}, dict(loss="none")),
    ("of pairs", L, dict(loss="hamming"), dict(loss="pairs")),
    ("own loss", L, {}, dict(samples=samples(loss=gm.Hamming(2)))),
    (
        "swapped losses",
        L,
        dict(samples=[*samples(loss=gm.Hamming(2), n=1), *samples(loss=gm.Hamming(3), n=1)]),
        dict(samples=[*samples(loss=gm.Hamming(3), n=1), *samples(loss=gm.Hamming(2), n=1)]),
    ),
    # decompositions
    ("name", D, dict(decomposition="chains"), dict(decomposition="trees")),
    (
        "sets",
        D,
        dict(decomposition=gm.Subgraphs([[0, 1, 2, 3], [3, 4, 5]])),
        dict(decomposition=gm.Subgraphs([[0, 1, 2], [2, 3, 4, 5]])),
    ),
    (
        "share",
        D,
        dict(decomposition=gm.Subgraphs([[0, 1, 2, 3], [2, 3, 4, 5]])),
        dict(decomposition=gm.Subgraphs([[0, 1, 2, 3], [2, 3, 4, 5]], share=False)),
    ),
    # what a sample is made of
    ("labels", "labels", dict(samples=labelled(0)), dict(samples=labelled(1))),
    ("order", "unary costs", {}, dict(samples=samples()[::-1])),
    ("number", "samples", {}, dict(samples=samples(n=3))),
    ("weight", "sample weights", {}, dict(samples=samples(weight=2.0))),
    ("hidden", "labels", {}, dict(samples=samples(**HIDDEN))),
    (
        "which is hidden",
        "labels",
        dict(samples=samples(**HIDDEN)),
        dict(samples=samples(hidden=[True] + [False] * 5)),
    ),
    ("allowed", "labels", dict(samples=samples(allowed=ALL)), dict(samples=samples(allowed=SOME))),
    (
        "start",
        "first completions",
        dict(samples=samples(**HIDDEN, start=TRUTH)),
        dict(samples=samples(**HIDDEN, start=[*TRUTH[:5], 0])),
    ),
    (
        "whose start",
        "first completions",
        dict(samples=[*samples(**HIDDEN, start=TRUTH, n=1), *samples(**HIDDEN, n=1)]),
        dict(samples=[*samples(**HIDDEN, n=1), *samples(**HIDDEN, start=TRUTH, n=1)]),
    ),
    (
        "completion",
        "completion",
        dict(samples=samples(**HIDDEN, completion=complete)),
        dict(samples=samples(**HIDDEN, completion=complete_too)),
    ),
    (
        "whose completion",
        "completion",
        dict(samples=[*samples(completion=complete, n=1), *samples(n=1)]),
        dict(samples=[*samples(n=1), *samples(completion=complete, n=1)]),
    ),
    # what training was asked for
    ("optimizer", "optimizer", dict(optimizer="bcfw"), dict(optimizer="subgradient")),
    ("temperature", "temperature", dict(temperature=1.0), dict(temperature=1.5)),
    (
        "likelihood",
        "likelihood",
        dict(temperature=1.0),
        dict(temperature=1.0, likelihood="piecewise"),
    ),
    ("first weights", "initial weights", {}, dict(weights={"s": 1.0, "u": np.zeros((3, 2))})),
    ("start", "start", dict(samples=samples(**HIDDEN)), dict(start="zero")),
    ("start function", "start", dict(start=start), dict(start=start_too)),
    ("tol", "tol", {}, dict(tol=1e-9)),
    ("patience", "patience", {}, dict(patience=11)),
    ("completion_every", "completion_every", {}, dict(completion_every=6)),
    ("completion_solver", "completion_solver", {}, dict(completion_solver="bcfw")),
    ("seed", "seed", {}, dict(seed=1)),
    ("no validation", "validation", dict(validation=validate_by(1.0)), dict(validation=None)),
    (
        "validation's closure",
        "validation",
        dict(validation=validate_by(1.0)),
        dict(validation=validate_by(2.0)),
    ),
    (
        "validation's arguments",
        "validation",
        dict(validation=functools.partial(weighted, 1)),
        dict(validation=functools.partial(weighted, -1)),
    ),
    (
        "validation's class",
        "validation",
        dict(validation=Callable()),
        dict(validation=OtherCallable()),
    ),
    (
        "validation's labels",
        "validation",
        dict(validation=samples()),
        dict(validation=samples(n=1)),
    ),
    (
        "validation's costs",
        "validation",
        dict(validation=samples()),
        dict(validation=other((gm.Potts, dict(edges=EDGES, contrast=np.ones(5))))["samples"]),
    ),
    # settings of optimisers
    *(
        (f"{name} {key}", "settings", dict(optimizer=name), dict(optimizer=name, **{key: value}))
        for name, settings in {
            "bcfw": dict(prox=2.0, step=0.5, evaluate_every=2, exchanges=3, working_set=4, batch=1),
            "subgradient": dict(step=0.5, lambda_step=0.5),
            "stochastic": dict(step=0.5, lambda_step=0.5, evaluate_every=2, batch=1),
            "incremental": dict(step=0.5, lambda_step=0.5, evaluate_every=2, batch=1),
            "cutting-plane": dict(oracle="exact", slack="1", drop_after=7),
        }.items()
        for key, value in settings.items()
    ),
    (
        "lbfgs iterations",
        "settings",
        dict(optimizer="lbfgs", temperature=1.0),
        dict(optimizer="lbfgs", temperature=1.0, iterations=3),
    ),
    # blocks
    *block(
        "unary",
        gm.Unary,
        dict(features=FEATURES, variables=range(5), weight="v"),
        features=changed(FEATURES, 9),
    ),
    *block(
        "unary", gm.Unary, dict(features=FEATURES, variables=range(5)), variables=[1, 2, 3, 4, 5]
    ),
    *block(
        "potts",
        gm.Potts,
        dict(edges=EDGES, contrast=np.ones(5)),
        contrast=changed(np.ones(5), 3),
        edges=[*EDGES[:4], [0, 5]],
    ),
    *block(
        "potts", gm.Potts, dict(edges=EDGES, features=FEATURES, weight="f"), features=FEATURES[::-1]
    ),
    *block(
        "truncated",
        gm.Truncated,
        dict(edges=EDGES, truncation=1.0, power=1.0, contrast=np.ones(5)),
        truncation=2.0,
        power=2.0,
        contrast=changed(np.ones(5), 4),
    ),
    *block(
        "difference", gm.Difference, dict(edges=EDGES, contrast=np.ones(5)), contrast=2 * np.ones(5)
    ),
    *block(
        "learnt",
        gm.LearntTable,
        dict(edges=EDGES, weight="p", contrast=np.ones(5)),
        contrast=changed(np.ones(5)),
        edges=[e[::-1] for e in EDGES],
    ),
    *block(
        "feature table",
        gm.FeatureTable,
        dict(variables=EDGES, features=FEATURES),
        features=changed(FEATURES),
    ),
    *block(
        "table",
        gm.Table,
        dict(variables=EDGES, tables=np.arange(9.0).reshape(3, 3)),
        tables=np.arange(9.0).reshape(3, 3).T,
    ),
    *block(
        "pn",
        "pn_potts",
        dict(cliques=CLIQUES, beta=-np.ones((2, 3)), beta_max=0.0),
        beta=-changed(np.ones((2, 3)), 5),
        beta_max=np.array([0.0, 1.0]),
        cliques=[[0, 1, 2], [2, 3, 4]],
    ),
    *block(
        "pn",
        "pn_potts",
        dict(cliques=CLIQUES, features=REGIONS, weight="n"),
        features=REGIONS[::-1],
    ),
    *block(
        "robust",
        "robust_pn",
        dict(cliques=CLIQUES, truncation=1.0, beta=-np.ones((2, 3)), beta_max=0.0),
        truncation=0.5,
        beta=-changed(np.ones((2, 3)), 1),
        beta_max=0.5,
    ),
    *block(
        "pattern",
        "pattern",
        dict(variables=CLIQUES, patterns=[[0, 1, 2]], psi=-1.0),
        patterns=[[2, 1, 0]],
        psi=-2.0,
        psi_max=0.5,
    ),
    *block(
        "cardinality",
        "cardinality",
        dict(cliques=CLIQUES, costs=[0.0, 1, 2, 3], label=1),
        costs=[0.0, 1, 3, 3],
        label=2,
    ),
    *block("at most", "at_most_k", dict(cliques=CLIQUES, number=2), number=3, label=0),
    *block(
        "implication",
        "implication",
        dict(pairs=EDGES, cost=1.0),
        cost=2.0,
        premise=2,
        conclusion=2,
        pairs=[e[::-1] for e in EDGES],
    ),
    *block("label cost", "label_cost", dict(cliques=CLIQUES, costs=[1.0, 2, 3]), costs=[1.0, 3, 2]),
    *block(
        "value sum",
        "value_sum",
        dict(cliques=CLIQUES, values=[0, 1, 2], costs=np.arange(7.0)),
        costs=changed(np.arange(7.0), 6),
        values=[0, 2, 1],
    ),
    *block(
        "signed",
        "signed_graph",
        dict(edges=EDGES, contrast=np.ones(5)),
        contrast=changed(np.ones(5), 2, -2.0),
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("changes")


@pytest.mark.parametrize(
    "number, what, named, first, then",
    [(k, *change) for k, change in enumerate(CHANGES)],
    ids=[f"{k}-{change[0]}" for k, change in enumerate(CHANGES)],
)
def test_every_change_is_named(number, what, named, first, then, folder):
    how = dict(samples=samples(), max_iter=2, checkpoint_every=1, tol=-1.0, show_progress=False)
    how["checkpoint"] = folder / f"{number}.npz"
    model = gm.train(**(how | first))
    again = gm.train(**(how | first))
    assert all(np.array_equal(w, again.weights[name]) for name, w in model.weights.items())
    with pytest.raises(ValueError, match=f"belongs to another training problem.*{named}"):
        gm.train(**(how | first | then))


def test_most_arguments_are_tried():
    assert len(CHANGES) >= 100
