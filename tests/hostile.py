"""Hostile values, what every public function is called with, and what it may answer."""

from __future__ import annotations

import numpy as np
import pandas as pd

import gmlearn as gm

#: name -> value; every argument is given each of them
VALUES = {
    "None": None,
    "object": object(),
    "string": "nonsense",
    "bool": True,
    "nan": float("nan"),
    "inf": float("inf"),
    "negative": -3,
    "fraction": 2.5,
    "huge whole": 2**70,
    "huge real": 1e200,
    "complex": 1 + 2j,
    "empty list": [],
    "list of None": [None],
    "ragged": [[1], [1, 2]],
    "strings": ["a", "b"],
    "dict": {"x": 1},
    "set": {1},
    "empty": np.zeros((0, 0)),
    "three dimensions": np.zeros((2, 2, 2)),
    "nan array": np.full((2, 2), np.nan),
    "float indices": np.array([[0.5, 1.5]]),
    "huge array": np.full((2, 2), 1e200),
    "masked": np.ma.array([[0, 1]], mask=[[False, True]]),
    "complex array": np.ones((2, 2)) * 1j,
    "object array": np.array([[object(), 1]], dtype=object),
    "read-only": np.broadcast_to(np.arange(2), (2, 2)),
    "strided": np.arange(8.0).reshape(2, 4)[:, ::2],
    "float16": np.ones((2, 2), np.float16),
    "uint64": np.full((2, 2), 2**63, np.uint64),
    "pandas": pd.DataFrame({"a": [0, 1], "b": [1, 0]}),
    "function": lambda *_: None,
}


def crf():
    made = gm.CRF([2, 2]).add_unary([[0, 1], [1, 0]])
    made.add(gm.Potts([[0, 1]], weight="s"))
    return made


def samples():
    return [gm.Sample(crf(), [0, 1])]


EDGES = [[0, 1]]
#: name of the package -> arguments of a call that succeeds
CALLS = {
    "CRF": dict(n_states=2, n_labels=2),
    "Unary": dict(features=np.ones((2, 3)), weight="u", variables=[0, 1]),
    "Potts": dict(edges=EDGES, contrast=[1.0], weight="s", features=None),
    "Truncated": dict(edges=EDGES, truncation=2.0, power=1, contrast=None, weight="s"),
    "Difference": dict(edges=EDGES, weight="V", contrast=None),
    "LearntTable": dict(edges=EDGES, weight="p", symmetric=True, contrast=None),
    "Pairwise": dict(edges=EDGES, weight="p", symmetric=True, table=None, contrast=None),
    "Table": dict(variables=EDGES, tables=np.zeros((2, 2))),
    "Hamming": dict(scale=1.0, weights=None),
    "WeightedHamming": dict(label_weights=[1.0, 2.0]),
    "LabelDistance": dict(truncation=2.0, scale=1.0, tolerance=0.0),
    "L1": dict(tau=1.0),
    "L2": dict(mu=1.0),
    "ElasticNet": dict(mu=1.0, tau=1.0),
    "GroupL2": dict(tau=1.0, groups=None),
    "Box": dict(low=0.0, high=1.0),
    "Fixed": dict(value=1.0),
    "Simplex": dict(total=1.0),
    "find_grid": dict(edges=np.array(EDGES), n_vars=2),
    "grid_edges": dict(height=2, width=2, connectivity=4),
    "grid_cliques": dict(height=3, width=3, clique_height=2, clique_width=2, stride=1),
    "from_networkx": dict(graph=crf().to_networkx({"s": 1.0})),
    "to_networkx": dict(crf=crf(), weights={"s": 1.0}, max_table=16),
    "join": dict(crfs=[crf()]),
    "make_executor": dict(executor="serial", n_jobs=1),
    "load": dict(path="nowhere.npz"),
    "read": dict(path="nowhere.uai", evidence=None),
    "read_sample": dict(path="nowhere.npz"),
    "read_weights": dict(path="nowhere.npz"),
    "read_text": dict(path="nowhere.uai"),
    "read_evidence": dict(path="nowhere.evid", n_states=np.array([2, 2])),
    "write": dict(crf=crf(), path="nowhere/m.npz", weights=None),
    "write_sample": dict(sample=samples()[0], path="nowhere/m.npz"),
    "solve": dict(
        crf=crf(),
        weights={"s": 1.0},
        solver="auto",
        time_limit=None,
        max_iter=None,
        seed=0,
        tol=1e-6,
        initial=None,
        decomposition="auto",
        gap=0.0,
        warm=None,
        on_progress=None,
    ),
    "train": dict(
        samples=samples(),
        loss="hamming",
        decomposition="auto",
        optimizer="auto",
        regularizer=None,
        constraints=None,
        checkpoint=None,
        n_jobs=1,
        seed=0,
        method="dual-decomposition",
        weights=None,
        temperature=0.0,
        max_iter=2,
        tol=1e-4,
        completion_every=5,
        completion_solver="auto",
        validation=None,
        patience=10,
        callbacks=(),
        checkpoint_every=10,
        executor="auto",
    ),
    "FeatureTable": dict(
        variables=EDGES, features=np.ones((1, 2, 2, 1)), weight="g", symmetric=False
    ),
    "marginals": dict(
        crf=crf(), weights={"s": 1.0}, method="auto", temperature=1.0, time_limit=None, seed=0
    ),
    "k_best": dict(crf=crf(), weights={"s": 1.0}, k=2, min_distance=1, time_limit=None, seed=0),
    "sample": dict(crf=crf(), weights={"s": 1.0}, n=2, seed=0, temperature=1.0),
    "relaxed": dict(crf=crf(), weights={"s": 1.0}),
    "LossPlan": dict(crf=crf(), truth=[0, 1], kind="hinge"),
    "structured_loss": dict(crf=crf(), truth=[0, 1], weights={"s": 1.0}, kind="hinge"),
    "decompose": dict(crf=crf(), decomposition="auto"),
    "Subgraphs": dict(sets=[[0, 1]], share=True),
    "Strips": dict(width=3, overlap=1, share=True),
    "SpanningHypertrees": dict(n_slaves=8, max_table=1.0, max_total=1e6, seed=0),
    "LazySamples": dict(sources=[lambda: samples()[0]], load=None),
    "clustering_accuracy": dict(labels=[0, 1], truth=[0, 0]),
    "contingency_table": dict(labels=[0, 1], truth=[0, 0]),
    "mean_and_error": dict(values=[1.0, 2.0]),
    "normalised_mutual_information": dict(labels=[0, 1], truth=[0, 0]),
    "check_array": dict(name="value", value=[1.0]),
    "check_index": dict(name="value", value=[0], n=2),
    "check_number": dict(name="value", value=1),
    "RaggedArrays": dict(values=np.arange(3), sizes=[1, 2]),
    "WeightLayout": dict(segments={"s": (2,)}),
    "Projection": dict(function=lambda w: w),
}

#: public names that are not called with hostile values, and why
EXCEPTIONS = {
    "contract of plugins: abstract, called by the library": (
        "Block Regularizer ConvexSet Decomposition Executor Experiment FileFormat Loss MapSolver "
        "Optimizer RaggedBlock SlaveGroup SlaveSolver Trainer MarginalMethod"
    ),
    "made by the library for plugins, from what was checked at the door": (
        "CliqueGroup Dual ForestGroup FreeGroup JunctionTreeGroup Objective OptimizerState "
        "PairwiseForm PassReport Problem Regularization Result Round Run SlaveResult Slaves "
        "SoftResult TrainedModel TrainingHistory TrainingOptions build_objective Marginals "
        "MarginalProblem Samples expected_features LossResult LossState Relaxed"
    ),
    "an error, a warning, an enumeration, a module, a text": (
        "FormatError PluginError PluginWarning SolverRefusal Status UnknownNameError plot testing "
        "__version__ MarginalStatus MethodRefusal"
    ),
    "takes no argument": "NoLoss NoRegularizer NonNegative plugins show_versions",
    "a record that is checked where it is used, by train": "Sample",
    "a tool for plugin authors, whose arguments are their own text": (
        "atomic_write check_choice check_random_state naming validate_data hookimpl lazy_exports progress register ModelBuilder Tokens compressed"
    ),
}
