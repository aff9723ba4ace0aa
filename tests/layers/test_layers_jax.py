"""The JAX layers: values, gradients, jit, ragged batches, dual state, dtypes."""

from __future__ import annotations

import copy
import dataclasses
import importlib

import numpy as np
import pytest
from layer_cases import SIZES, batch, padded, plain, square, word

import gmlearn as gm

jax = pytest.importorskip("jax")
jnp = jax.numpy
check_grads = importlib.import_module("jax.test_util").check_grads


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield


@pytest.fixture
def layers():
    import gmlearn.layers.jax as layers

    return layers


@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
@pytest.mark.parametrize("form", ["list", "padded"])
def test_loss_and_gradient_of_a_ragged_batch_under_jit(layers, kind, form):
    crfs, (unary, truths) = [word(n) for n in SIZES], batch()
    value, slopes, _ = plain(crfs, unary, truths, kind)
    loss = layers.StructuredLoss(crfs, kind)
    given = (unary, truths) if form == "list" else (padded(unary), padded(truths))
    given = jax.tree.map(jnp.asarray, given)
    found, slope = jax.jit(jax.value_and_grad(loss))(*given)
    assert float(found) == pytest.approx(value, abs=1e-9)
    for k, expected in enumerate(slopes):
        np.testing.assert_allclose(slope[k][: len(expected)], expected, atol=1e-9)
        assert (np.asarray(slope[k][len(expected) :]) == 0).all()


def test_gradients_in_weights_and_in_costs_of_blocks(layers):
    unary, truths = batch()
    crfs = [word(n, "smooth") for n in SIZES]
    weights = {"smooth": jnp.asarray(0.3)}
    loss = layers.StructuredLoss(crfs, "likelihood", reduction="sum")
    slope = jax.grad(lambda w: loss(unary, truths, weights=w))(weights)
    expected = plain(crfs, unary, truths, "likelihood", {"smooth": 0.3})[2].weights
    np.testing.assert_allclose(slope["smooth"], expected["smooth"], atol=1e-9)

    fixed, strengths = (
        layers.StructuredLoss(square(), "likelihood"),
        jnp.array([0.1, 0.2, 0.3, 0.4]),
    )
    rows, labels = batch((4,))

    def value(s):
        return fixed(rows, labels, costs=[{0: s, 1: (jnp.full((1, 3), -0.5), jnp.zeros(1))}])

    check_grads(value, (strengths,), order=1, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_marginals_and_their_gradient(layers):
    crfs, (unary, _) = [word(n) for n in SIZES], batch()
    layer = layers.StructuredLayer(crfs)
    marginals = jax.jit(layer)([jnp.asarray(u) for u in unary])
    for crf, u, found in zip(crfs, unary, marginals):
        fed = crf.copy().add_unary(u)
        truth = np.zeros(crf.n_vars, int)
        slope = gm.structured_loss(fed, truth, kind="likelihood").unary
        np.testing.assert_allclose(found, np.eye(3)[truth] - slope, atol=1e-9)

    def score(u):
        return sum((m**3).sum() for m in layer(u))

    check_grads(score, (unary,), order=1, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_marginals_of_loops_have_a_gradient(layers):
    layer = layers.StructuredLayer(square(), tol=1e-9)
    unary = batch((4, 4))[0]

    def score(u):
        return sum((m**2).sum() for m in layer(u))

    check_grads(score, (unary,), order=1, modes=["rev"], atol=1e-4, rtol=1e-4)


def test_sparsemap_and_its_gradient(layers):
    layer = layers.StructuredLayer([square(), word(4)], "sparsemap", tol=1e-12)
    unary = batch((4, 4))[0]

    def score(u):
        return sum((m**2).sum() for m in layer(u))

    check_grads(score, (unary,), order=1, modes=["rev"], atol=1e-5, rtol=1e-5, eps=1e-5)


def test_labels(layers):
    crfs, (unary, _) = [word(n) for n in SIZES], batch()
    labels = jax.jit(layers.StructuredLayer(crfs, "labels"))(jnp.asarray(padded(unary)))
    for crf, u, found in zip(crfs, unary, labels):
        expected = gm.solve(crf.copy().add_unary(u)).labels
        assert found[: len(u)].tolist() == expected.tolist()


def test_single_precision_in_single_precision_out(layers):
    unary, truths = batch()
    given = [jnp.asarray(u, jnp.float32) for u in unary]
    loss = layers.StructuredLoss([word(n) for n in SIZES])
    value, slope = jax.value_and_grad(loss)(given, truths)
    assert value.dtype == jnp.float32
    assert {s.dtype for s in slope} == {jnp.dtype(jnp.float32)}
    assert layers.StructuredLayer([word(n) for n in SIZES])(given)[0].dtype == jnp.float32


def test_dual_state_is_kept_by_sample_id(layers):
    rows, labels = batch((4, 4, 4))
    cold = layers.StructuredLoss([square()] * 3, max_iter=0)
    loss = layers.StructuredLoss([square()] * 3)
    value = jax.jit(loss)
    first = value([rows[2], rows[0]], [labels[2], labels[0]], jnp.array([2, 0]))
    assert sorted(loss.host.kept) == [0, 2]
    other = copy.deepcopy(loss)
    other.host.options = dataclasses.replace(loss.host.options, max_iter=0)
    again = other([rows[0], rows[2]], [labels[0], labels[2]], jnp.array([0, 2]))
    assert float(again) == pytest.approx(float(first), abs=1e-6)
    assert float(cold([rows[0], rows[2]], [labels[0], labels[2]], [0, 2])) > float(first) + 1e-3


def test_costs_that_are_not_numbers_are_refused_with_sample_and_tensor(layers):
    unary, truths = batch()
    loss = layers.StructuredLoss([word(n) for n in SIZES])
    broken = [u.copy() for u in unary]
    broken[1][2, 0] = np.nan
    with pytest.raises(Exception, match=r"unary\[1\] \(sample id 1\): the cost of variable 2"):
        jax.block_until_ready(loss(broken, truths))
    with pytest.raises(Exception, match=r"costs\[0\]\[0\]: contains NaN"):
        jax.block_until_ready(loss(unary, truths, costs=[{0: np.full(2, np.nan)}, {}, {}]))
    with pytest.raises(Exception, match=r"unary\[0\].*expected shape \(3, 3\), got \(2, 3\)"):
        jax.block_until_ready(loss([u[:2] for u in unary], truths))
    with pytest.raises(ValueError, match="reduction"):
        layers.StructuredLoss(word(2), reduction="none")
    with pytest.raises(TypeError, match="models"):
        layers.StructuredLoss([3])
