"""A user's regulariser or set with the formulas of a built-in one: the same result with every
optimiser, or a refusal that says what is missing.
"""

from typing import ClassVar

import numpy as np
import pytest
from learn_cases import ring_samples

import gmlearn as gm

#: settings that bring each optimiser to about 1e-9 of where it would go
OPTIMIZERS = {
    "bcfw": dict(max_iter=30),
    "subgradient": dict(max_iter=40),
    "stochastic": dict(max_iter=20),
    "incremental": dict(max_iter=20),
    "cutting-plane": dict(max_iter=40),
    "lbfgs": dict(max_iter=40, temperature=0.5),
}


class OwnL2(gm.Regularizer):
    mu = 0.4


class OwnL1(gm.Regularizer):
    """All that `gm.L1` answers, from its definition."""

    separable: ClassVar[bool] = True
    tau = 0.1

    def rest(self, w):
        return self.tau * float(np.abs(w).sum())

    def prox_rest(self, w, step):
        return w - np.clip(w, -step * self.tau, step * self.tau)

    def rest_expression(self, variable, shape):
        import cvxpy

        return self.tau * cvxpy.sum(cvxpy.abs(variable))


class OwnElasticNet(OwnL1):
    mu = 0.3


class OwnGroups(gm.Regularizer):
    """Rows of the segment as groups; with nothing said of coupling."""

    tau = 0.2

    def rest(self, w):
        rows = w.reshape(len(w), -1)
        return self.tau * float(np.linalg.norm(rows, axis=1).sum())

    def prox_rest(self, w, step):
        rows = w.reshape(len(w), -1)
        norm = np.linalg.norm(rows, axis=1, keepdims=True)
        limit = self.tau * float(np.max(step, initial=0.0))
        return (rows * np.maximum(1.0 - limit / np.maximum(norm, 1e-300), 0.0)).reshape(w.shape)

    def rest_expression(self, variable, shape):
        import cvxpy

        size = int(np.prod(shape)) // shape[0]
        rows = [variable[r * size : (r + 1) * size] for r in range(shape[0])]
        return self.tau * sum(cvxpy.norm(row) for row in rows)


class OwnBox(gm.ConvexSet):
    box = True
    low, high = -0.2, 0.3

    def bounds(self, shape):
        return np.full(shape, self.low), np.full(shape, self.high)

    def project(self, w):
        return np.minimum(np.maximum(w, self.low), self.high)


class OwnOrthant(OwnBox):
    low, high = 0.0, np.inf


class OwnPoint(OwnBox):
    low = high = 0.1


class OwnSimplex(gm.ConvexSet):
    """By bisection of the shift that makes the positive parts sum to one half."""

    def project(self, w):
        low, high = float(w.min()) - 1.0, float(w.max())
        for _ in range(200):
            middle = 0.5 * (low + high)
            if np.maximum(w - middle, 0.0).sum() > 0.5:
                low = middle
            else:
                high = middle
        return np.maximum(w - high, 0.0)

    def support(self, v):
        return 0.5 * float(v.max())

    def constraint(self, variable, shape):
        return [variable >= 0, sum(variable) == 0.5]


#: name -> (built-in, the same by a user), each as keywords of `gm.train`
TERMS = {
    "L2": (dict(regularizer=gm.L2(0.4)), dict(regularizer=OwnL2())),
    "L1": (dict(regularizer=gm.L1(0.1)), dict(regularizer=OwnL1())),
    "elastic net": (
        dict(regularizer=gm.ElasticNet(0.3, 0.1)),
        dict(regularizer=OwnElasticNet()),
    ),
    "groups": (dict(regularizer=gm.GroupL2(0.2)), dict(regularizer=OwnGroups())),
    "box": (dict(constraints=gm.Box(-0.2, 0.3)), dict(constraints=OwnBox())),
    "orthant": (dict(constraints=gm.NonNegative()), dict(constraints=OwnOrthant())),
    "fixed": (dict(constraints={"pair": gm.Fixed(0.1)}), dict(constraints={"pair": OwnPoint()})),
    "simplex": (
        dict(constraints={"pair": gm.Simplex(0.5)}),
        dict(constraints={"pair": OwnSimplex()}),
    ),
    "L1 on a simplex": (
        dict(regularizer=gm.L1(0.1), constraints={"pair": gm.Simplex(0.5)}),
        dict(regularizer=OwnL1(), constraints={"pair": OwnSimplex()}),
    ),
    "groups in the orthant": (
        dict(regularizer=gm.GroupL2(0.2), constraints=gm.NonNegative()),
        dict(regularizer=OwnGroups(), constraints=OwnOrthant()),
    ),
}


def outcome(terms, optimizer):
    """The trained model, or the sentence of the refusal."""
    options = dict(tol=-1.0, seed=0, show_progress=False) | OPTIMIZERS[optimizer]
    try:
        return gm.train(ring_samples(0), optimizer=optimizer, **terms, **options)
    except ValueError as error:
        return str(error)


def test_every_optimizer_is_in_the_table():
    from gmlearn.registry import registry

    assert set(OPTIMIZERS) == {entry.name for entry in registry.entries("optimizer")}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("term", TERMS)
def test_own_formulas_give_the_result_of_the_built_in_ones(term, optimizer):
    built_in, own = (outcome(terms, optimizer) for terms in TERMS[term])
    if isinstance(built_in, str) or isinstance(own, str):
        for refusal in (built_in, own):
            assert isinstance(refusal, str) and f"optimizer {optimizer!r} refuses" in refusal
        return
    assert own.objective == pytest.approx(built_in.objective, rel=1e-6, abs=1e-9)
    for name, weights in built_in.weights.items():
        np.testing.assert_allclose(own.weights[name], weights, atol=1e-5)


class BareGroups(gm.Regularizer):
    """Nothing but the two formulas."""

    rest = OwnGroups.rest
    prox_rest = OwnGroups.prox_rest
    tau = OwnGroups.tau


BARE = {
    "groups": (TERMS["groups"][0], dict(regularizer=BareGroups()), "`rest_expression`"),
    "simplex": (
        TERMS["simplex"][0],
        dict(constraints={"pair": OwnSimplex().project}),
        "`constraint`",
    ),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("term", BARE)
def test_formulas_alone_are_enough_or_the_missing_one_is_named(term, optimizer):
    built_in_terms, own_terms, missing = BARE[term]
    own = outcome(own_terms, optimizer)
    if isinstance(own, str):
        assert f"optimizer {optimizer!r} refuses" in own
        assert missing in own or isinstance(outcome(built_in_terms, optimizer), str)
        return
    built_in = outcome(built_in_terms, optimizer)
    assert own.objective == pytest.approx(built_in.objective, rel=1e-6, abs=1e-9)
