"""What the tests of file formats share: registered formats and small models."""

from __future__ import annotations

import numpy as np
import pytest

import gmlearn as gm
from gmlearn import io
from gmlearn.registry import registry


@pytest.fixture(scope="session", autouse=True)
def registered_formats():
    known = {entry.name for entry in registry.entries("format")}
    for file_format in (io.Uai(), io.Npz()):
        if file_format.name not in known:
            registry.add(file_format)


@pytest.fixture
def full_model():
    """A model with every built-in block, and weights for it."""
    rng = np.random.default_rng(0)
    crf = gm.CRF([3, 3, 3, 2, 4])
    crf.add_unary(
        [[0.0, np.inf, 1.0], [0.5, 0.25, 2.0], [0, 0, 0], [1.0, -1.0], [0.1, 0.2, 0.3, np.inf]]
    )
    crf.add(gm.Unary(rng.normal(size=(3, 2)), weight="u", variables=[0, 1, 2]))
    crf.add(gm.Unary(rng.normal(size=(1, 4, 3)), weight="u2", variables=[4]))
    crf.add(gm.Potts([[0, 1], [1, 3]], contrast=[0.5, 2.0], weight="smooth"))
    crf.add(gm.Potts([[0, 4]], features=[[1.0, 2.0]], weight="two"))
    crf.add(gm.Truncated([[1, 2], [2, 4]], truncation=1.5, power=2, weight="t"))
    crf.add(gm.Truncated([[2, 3]]))
    crf.add(gm.Difference([[0, 2]], weight="V", contrast=[2.0]))
    crf.add(gm.LearntTable([[0, 1], [2, 1]], weight="pair"))
    crf.add(gm.LearntTable([[0, 2]], weight="square", symmetric=False))
    crf.add(gm.Table([[0, 3], [4, 3]], [rng.normal(size=(3, 2)), rng.normal(size=(4, 2))]))
    crf.add(gm.Table([[0, 1, 2], [2, 1, 0]], rng.normal(size=(3, 3, 3))))
    weights = {name: rng.normal(size=shape) for name, shape in crf.layout.shapes.items()}
    return crf, weights
