"""check(layer=True): every shipped slave passes, wrong gradients are caught."""

from __future__ import annotations

import numpy as np
import pytest

import gmlearn as gm
from gmlearn.registry import registry

CHECKS = gm.testing.checks_of("layer")


@pytest.mark.parametrize("one", CHECKS, ids=str)
@pytest.mark.parametrize("name", [e.name for e in registry.entries("slave solver")])
def test_shipped_slaves_have_right_gradients_under_a_network(name, one):
    solver = registry.get("slave solver", name)
    if not one.concerns(solver):
        pytest.skip(f"has no {one.needs}")
    try:
        one(solver, 1)
    except gm.testing.NotApplicable as why:
        pytest.skip(str(why))


class Enumerate(gm.SlaveSolver):
    """Right, for the next ones to spoil."""

    name = "spoilt"
    heat = 1.0

    def refuses(self, block):
        return None if isinstance(block, gm.Potts) else "not Potts"

    def tables(self, block, theta, w):
        return theta[:, 0, :, None] + theta[:, 1, None, :] + block.table(w)

    def minimise(self, block, theta, w):
        table = self.tables(block, theta, w)
        flat = table.reshape(len(table), table.shape[1] * table.shape[2])
        best = flat.argmin(axis=1)
        labels = np.stack(np.unravel_index(best, table.shape[1:]), axis=1)
        return labels, flat.min(axis=1)

    def log_partition(self, block, theta, w, temperature):
        table = self.tables(block, theta, w)
        low = table.min(axis=(1, 2), keepdims=True)
        value = low[:, 0, 0] - temperature * np.log(
            np.exp((low - table) / temperature).sum(axis=(1, 2))
        )
        p = np.exp((low - table) / (self.heat * temperature))
        p /= p.sum(axis=(1, 2), keepdims=True)
        return value, np.stack([p.sum(axis=2), p.sum(axis=1)], axis=1), block.expected_features(p)

    def examples(self, rng):
        block = gm.Potts([[0, 1], [1, 2]], contrast=[0.5, 2.0], weight="s").bind(np.full(3, 2))
        return [(block, {"s": rng.random()})]


class Hot(Enumerate):
    """Marginals of another temperature than the soft minima."""

    heat = 1.5


class Swapped(Enumerate):
    """The labels of another minimiser than the one whose cost is told."""

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        return 1 - labels, value


class Apart(Enumerate):
    """The other label of the first variable than the one whose cost is told."""

    def minimise(self, block, theta, w):
        labels, value = super().minimise(block, theta, w)
        labels[:, 0] = 1 - labels[:, 0]
        return labels, value


class Forgetful(Enumerate):
    """Expected features of the weights that it knows of, and of nothing else."""

    def log_partition(self, block, theta, w, temperature):
        value, marginals, features = super().log_partition(block, theta, w, temperature)
        return value, marginals, {"s": features["s"]}


def test_a_right_slave_passes():
    for one in CHECKS:
        one(Enumerate())


def test_the_layer_is_checked_when_it_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "gmlearn.testing.kit.outcome", lambda one, thing: asked.append(one) or (True, "")
    )
    for layer in (False, True):
        asked.clear()
        gm.testing.check(Enumerate(), layer=layer)
        assert all((one in asked) == layer for one in CHECKS)
        assert len(asked) > len(CHECKS)


@pytest.mark.parametrize(
    ("wrong", "caught_by", "said"),
    [
        (Hot, "check_layer_likelihood_gradients", "likelihood loss in unary costs"),
        (Swapped, "check_layer_hinge_gradients", "hinge loss in unary costs"),
        (Hot, "check_layer_likelihood_in_blocks", "likelihood loss in the block's own numbers"),
        (Apart, "check_layer_hinge_in_blocks", "hinge loss in the block's own numbers"),
        (Forgetful, "check_layer_likelihood_in_blocks", "in the block's own numbers"),
    ],
)
def test_planted_gradients_are_caught_and_named(wrong, caught_by, said):
    (one,) = (c for c in CHECKS if c.name == caught_by)
    with pytest.raises(AssertionError, match=rf"{caught_by} failed for the layer 'spoilt'.*{said}"):
        one(wrong())


def test_only_slaves_are_checked_under_a_network():
    with pytest.raises(TypeError, match="layer: only slave solvers and groups are checked"):
        gm.testing.check(gm.Potts, layer=True)
