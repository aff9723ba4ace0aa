"""Every estimator refuses wrong input at the door, with the name of the argument."""

from __future__ import annotations

import contextlib
import inspect
import io
import signal

import numpy as np
import pytest
from gmlearn_clustering import ExemplarClustering, ExemplarClusteringLearner
from gmlearn_groupfs import GroupFeatureClustering
from gmlearn_mlca import ITML, KISSME, MLCA, XQDA, SpectralMetric
from gmlearn_multicut import Multicut
from gmlearn_pointsets import PointSetClustering
from gmlearn_structured import ChainCRF, GraphCRF, GridCRF, MultiClassCRF, MultiLabelCRF
from gmlearn_vision import Denoiser
from hostile import VALUES
from sklearn.base import clone

import gmlearn as gm

RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(size=(6, 2)), 4 + RNG.normal(size=(6, 2))])
HALVES = np.repeat([0, 1], 6)
WORDS = [RNG.normal(size=(3, 2)) for _ in range(4)]
LABELS = [RNG.integers(0, 2, 3) for _ in range(4)]
EDGES = np.array([[0, 1], [1, 2]])
#: seconds for one case; a number like 2^70 may ask for endless work, but not for an endless start
SLOW = 20

#: estimator with cheap settings, arguments of `fit`
ESTIMATORS = [
    (ChainCRF(max_iter=3), {"X": WORDS, "y": LABELS}),
    (GraphCRF(max_iter=3), {"X": [(x, EDGES) for x in WORDS], "y": LABELS}),
    (GridCRF(max_iter=3), {"X": [RNG.normal(size=(2, 3, 2))], "y": [RNG.integers(0, 2, (2, 3))]}),
    (MultiLabelCRF(max_iter=3), {"X": ROWS, "y": RNG.integers(0, 2, (12, 3))}),
    (MultiClassCRF(max_iter=3), {"X": ROWS, "y": HALVES}),
    (ExemplarClustering(), {"X": ROWS}),
    (ExemplarClusteringLearner(), {"X": [ROWS, ROWS], "y": [HALVES, HALVES]}),
    (MLCA(), {"X": ROWS, "y": HALVES}),
    (SpectralMetric(n_rounds=3), {"X": ROWS, "y": HALVES}),
    (KISSME(), {"X": ROWS, "y": HALVES}),
    (XQDA(), {"X": ROWS, "y": HALVES}),
    (ITML(n_pairs=20, n_sweeps=1), {"X": ROWS, "y": HALVES}),
    (GroupFeatureClustering(2, n_init=1), {"X": ROWS}),
    (PointSetClustering(2), {"X": [ROWS[:4], ROWS[4:8], ROWS[8:]]}),
    (Multicut(), {"X": np.array([1.0, -1.0]), "edges": EDGES}),
    (
        Denoiser(4, max_iter=2, solver_iter=2),
        {"X": [RNG.random((6, 6))], "y": [RNG.random((6, 6))]},
    ),
]
#: values of parameters; arrays are tried as data
PARAMETERS = [
    "object",
    "string",
    "nan",
    "inf",
    "negative",
    "fraction",
    "complex",
    "dict",
    "ragged",
    "function",
]


@contextlib.contextmanager
def limited():
    def late(*_):
        raise TimeoutError("endless")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SLOW)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def answer(estimator, arguments, names):
    """What is wrong with the answer; empty if it is a success or an error that names the
    argument.
    """
    quiet = contextlib.redirect_stderr(io.StringIO())
    try:
        with limited(), quiet, np.errstate(all="ignore"):
            estimator.fit(**arguments)
    except gm.UnknownNameError:  # said with the kind of name
        return ""
    except (ValueError, TypeError) as error:
        named = any(name in str(error) for name in names)
        return "" if named else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def case_name(case):
    return type(case[0]).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ESTIMATORS, ids=case_name)
def test_hostile_parameters(case):
    estimator, good = case
    clone(estimator).fit(**good)
    wrong = []
    for parameter in inspect.signature(type(estimator)).parameters:
        for what in PARAMETERS:
            made = clone(estimator).set_params(**{parameter: VALUES[what]})
            told = answer(made, good, [parameter, parameter.rstrip("s")])
            if told:
                wrong.append(f"{parameter}={what}: {told[:150]}")
    assert wrong == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ESTIMATORS, ids=case_name)
def test_hostile_data(case):
    estimator, good = case
    wrong = []
    for argument in good:
        for what, value in VALUES.items():
            # scikit-learn's own checks speak of arrays, samples and features
            names = [*good, "kernel", "array", "sample", "feature", "label", "sparse", "dtype"]
            told = answer(clone(estimator), good | {argument: value}, names)
            if told:
                wrong.append(f"{argument}={what}: {told[:150]}")
    assert wrong == []
