"""What all estimators share: labels, training, prediction. A subclass says how one input becomes a
model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import gmlearn as gm
from gmlearn_structured.starts import clustered_states

#: loss and temperature of `gmlearn.train` for the losses that have names here
LOSSES: dict[str, tuple[str, float]] = {"hinge": ("hamming", 0.0), "likelihood": ("none", 1.0)}


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredBase(BaseEstimator):
    r"""A CRF for each input, with weights that all inputs share:
    :math:`\min_w \frac{1}{2C}|w|^2 + \sum_k L_k(w)`.

    Parameters
    ----------
    loss : "hinge", the structured hinge with the Hamming distance as margin; "likelihood"; or a
        name or `gmlearn.Loss` for the hinge with another margin.
    C : the inverse of the regularisation.   regularizer : of `gmlearn.train`, instead of C.
    class_weight : None, "balanced", or a mapping from labels to factors: of the margin at each
        wrong label (hinge), or of the loss of an input, averaged over its labels (likelihood).
    inference : the MAP solver, by name.
    max_iter, tol : of `gmlearn.train`.
    warm_start : does `fit` go on from the weights of the last one?
    n_jobs : workers over samples.   random_state : seed.
    n_states_per_label : hidden states of each label, one number or one for each label: the CRF has
        all states, a label stands for any of its own.
    n_init : how often training starts where labels have several states: first with those that
        k-means finds within each label, then with random ones. The lowest objective wins.

    Attributes
    ----------
    classes_ : the labels, sorted.   model_ : `gmlearn.TrainedModel`.   weights_ : name -> array,
        of costs.   coef_ : float (n_states, n_features), scores, the costs' negatives.
    starts_ : the objective that each start has reached.
    """

    loss: Any = "hinge"
    C: float = 1.0
    regularizer: Any = None
    class_weight: Any = None
    inference: str = "auto"
    max_iter: int = 100
    tol: float = 1e-4
    warm_start: bool = False
    n_jobs: int = 1
    random_state: Any = 0
    n_states_per_label: Any = 1
    n_init: int = 1

    #: fitted attributes that `save` keeps besides classes and weights
    kept: ClassVar[tuple[str, ...]] = ()

    # ------------------------------------------------------------------ what a subclass writes

    def read_input(self, x: Any) -> Any:
        """One input, checked; a ValueError says what is wrong."""
        return x

    def build_model(self, x: Any, n_states: int) -> gm.CRF:
        """The model of a checked input; its variables have `n_states` states."""
        raise TypeError(f"{type(self).__name__} must define build_model(x, n_states)")

    def node_features(self, x: Any) -> np.ndarray | None:
        """Features (V, F) of the variables, for k-means within labels; None if there are none."""
        return None

    def shape_labels(self, x: Any, labels: np.ndarray) -> Any:
        """Values (V, ...) of the variables as a user wants to see them."""
        return labels

    # ------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the weights.

        X : inputs.   y : the labels of each, array-like.
        """
        self._check_parameters()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        again = self.warm_start and hasattr(self, "model_")
        inputs = self._inputs(X, fitting=True)
        targets = self._targets(y, len(inputs))
        if not again:
            self.classes_ = self._classes(targets)
            self._states()
        labels = [self._encode(k, t) for k, t in enumerate(targets)]
        self._prepare(inputs, labels)
        models = self._models(inputs, self.weights_ if again else None)
        for k, (crf, own) in enumerate(zip(models, labels)):
            if len(own) != crf.n_vars:
                raise ValueError(f"y[{k}]: expected {crf.n_vars} labels, got {len(own)}")
        self.model_ = self._train(models, inputs, labels, self.weights_ if again else None)
        return self

    def _check_parameters(self) -> None:
        gm.check_number("C", self.C, low=0, strict=True)
        gm.check_number("max_iter", self.max_iter, low=0, integer=True)
        gm.check_number("n_init", self.n_init, low=1, integer=True)

    def _prepare(self, inputs: list[Any], labels: list[np.ndarray]) -> None:
        """Whatever a model needs to know of all training data."""

    def _train(
        self,
        models: list[gm.CRF],
        inputs: list[Any],
        labels: list[np.ndarray],
        weights: dict[str, np.ndarray] | None,
    ) -> gm.TrainedModel:
        seed = int(gm.check_random_state(self.random_state).randint(2**31 - 1))
        loss, temperature = self._loss(labels)
        samples = self._samples(models, labels)
        states = self._starts(models, inputs, labels, seed)
        given = [replace(sample, start=start) for sample, start in zip(samples, states)]
        again = self.n_init - 1 if states else 0
        found = [
            gm.train(
                some,
                loss,
                temperature=temperature,
                regularizer=gm.L2(1.0 / self.C) if self.regularizer is None else self.regularizer,
                weights=weights,
                start=start,
                n_init=n_init,
                max_iter=self.max_iter,
                tol=self.tol,
                n_jobs=self.n_jobs,
                seed=seed,
                show_progress=False,
            )
            for some, start, n_init in ((given or samples, "auto", 1), (samples, "random", again))
            if n_init
        ]
        best = min(found, key=lambda model: model.objective)
        starts = (model.settings.get("starts", [model.objective]) for model in found)
        best.settings["starts"] = [objective for some in starts for objective in some]
        return best

    def _loss(self, labels: list[np.ndarray]) -> tuple[Any, float]:
        """Loss and temperature of the training."""
        loss, temperature = LOSSES.get(str(self.loss), (self.loss, 0.0))
        if self.class_weight is None or self._weights_inputs:
            return loss, temperature
        if loss != "hamming":
            raise ValueError(
                f"class_weight: needs loss='hinge' or 'likelihood', got loss={self.loss!r}"
            )
        return gm.WeightedHamming(self._class_weights(labels)[self.label_of_state_]), 0.0

    @property
    def _weights_inputs(self) -> bool:
        """Is `class_weight` a factor of the loss of an input, not of its margin?"""
        return self.class_weight is not None and self.loss == "likelihood"

    def _samples(self, models: list[gm.CRF], labels: list[np.ndarray]) -> list[gm.Sample]:
        first = np.searchsorted(self.label_of_state_, np.arange(len(self.classes_)))
        factor = np.ones(len(labels))
        if self._weights_inputs:
            each = self._class_weights(labels)
            factor = np.array([each[own].mean() for own in labels])
        return [
            gm.Sample(
                crf,
                first[own],
                weight=float(c),
                allowed=self.label_of_state_ == own[:, None] if self._hidden else None,
            )
            for crf, own, c in zip(models, labels, factor)
        ]

    @property
    def _hidden(self) -> bool:
        """Has a label several states?"""
        return len(self.label_of_state_) > len(self.classes_)

    def _starts(
        self, models: list[gm.CRF], inputs: list[Any], labels: list[np.ndarray], seed: int
    ) -> list[np.ndarray]:
        """The states that each input starts from; none if labels have one state each."""
        if not self._hidden:
            return []
        features = [self.node_features(x) for x in inputs]
        return clustered_states(models, labels, features, self.label_of_state_, seed)

    # ------------------------------------------------------------------ prediction

    def predict(self, X: Any) -> Any:
        """The labels of least energy of each input."""
        inputs, models = self._fitted_models(X)
        found = self.model_.predict_many(models, n_jobs=self.n_jobs, solver=self.inference)
        return self._collect(
            [
                self.shape_labels(x, self.classes_[self.label_of_state_[r.labels]])
                for x, r in zip(inputs, found)
            ]
        )

    def predict_marginals(self, X: Any) -> Any:
        """The probability of each label at each variable, (..., n_classes), of the Gibbs
        distribution exp(-E); see `gmlearn.marginals` for what is exact.
        """
        inputs, models = self._fitted_models(X)
        union = gm.join(models)
        named = {name: self.weights_[name] for name in union.layout.shapes}
        found = np.split(gm.marginals(union, named).node, union.parts[1:-1])
        choose = np.eye(len(self.classes_))[self.label_of_state_]
        return self._collect([self.shape_labels(x, p @ choose) for x, p in zip(inputs, found)])

    def decision_function(self, X: Any) -> Any:
        """Scores (..., n_classes) of the labels at each variable: the least energy of all
        labellings minus the least of those with this label there, so 0 for the predicted label,
        less for others. Only of sequences and trees.
        """
        inputs, models = self._fitted_models(X)
        for k, crf in enumerate(models):
            if not is_tree(crf):
                raise ValueError(
                    f"X[{k}]: scores are known for sequences and trees, this graph has cycles; "
                    f"predict_marginals knows probabilities"
                )
        union = gm.join(models)
        named = {name: self.weights_[name] for name in union.layout.shapes}
        costs = gm.solve(union, named, solver=self.inference).reduced_costs
        first = np.searchsorted(self.label_of_state_, np.arange(len(self.classes_)))
        scores = np.split(-np.minimum.reduceat(costs, first, axis=1), union.parts[1:-1])
        return self._collect([self.shape_labels(x, own) for x, own in zip(inputs, scores)])

    def score(self, X: Any, y: Any) -> float:
        """The share of right labels; one that training has not seen is an error."""
        check_is_fitted(self, "model_")
        found = [np.ravel(p) for p in self.predict(X)]
        targets = self._targets(y, len(found))
        for k, (own, predicted) in enumerate(zip(targets, found)):
            self._encode(k, own)
            if len(own) != len(predicted):
                raise ValueError(f"y[{k}]: expected {len(predicted)} labels, got {len(own)}")
        return float(np.mean(np.concatenate(found) == np.concatenate(targets)))

    def _collect(self, found: list[Any]) -> Any:
        """The answers for all inputs."""
        return found

    @property
    def weights_(self) -> dict[str, np.ndarray]:
        check_is_fitted(self, "model_")
        return self.model_.weights

    @property
    def starts_(self) -> list[float]:
        check_is_fitted(self, "model_")
        return self.model_.settings["starts"]

    @property
    def n_iter_(self) -> int:
        """Passes over the samples."""
        check_is_fitted(self, "model_")
        return len(self.model_.history)

    @property
    def coef_(self) -> np.ndarray:
        if "unary" not in self.weights_:
            raise AttributeError(
                f"coef_: is of weights named 'unary', the model has {sorted(self.weights_)}"
            )
        return -self.weights_["unary"]

    # ------------------------------------------------------------------ inputs and labels

    def _inputs(self, X: Any, fitting: bool = False) -> list[Any]:
        """All inputs, checked; an error names the one that is wrong."""
        with gm.naming("X"):
            inputs = list(X)
        if not inputs:
            raise ValueError("X: expected at least one input, got none")
        found = []
        for k, x in enumerate(inputs):
            try:
                found.append(self.read_input(x))
            except (TypeError, ValueError) as error:
                raise type(error)(f"X[{k}]: {error}") from None
        return found

    def _models(self, inputs: list[Any], weights: dict[str, np.ndarray] | None) -> list[gm.CRF]:
        """The models of checked inputs, all with the same weights."""
        n_states = len(self.label_of_state_)
        learnt = None if weights is None else {n: np.shape(v) for n, v in weights.items()}
        models = []
        for k, x in enumerate(inputs):
            try:
                crf = self.build_model(x, n_states)
            except (TypeError, ValueError) as error:
                raise type(error)(f"X[{k}]: {error}") from None
            shapes = dict(crf.layout.shapes)
            learnt = learnt or shapes
            for name, shape in shapes.items():
                if learnt.setdefault(name, shape) != shape:
                    raise ValueError(
                        f"X[{k}]: features of another width: the weights {name!r} would have shape "
                        f"{shape}, those of other inputs have {learnt[name]}"
                    )
            models.append(crf)
        return models

    def _fitted_models(self, X: Any) -> tuple[list[Any], list[gm.CRF]]:
        check_is_fitted(self, "model_")
        inputs = self._inputs(X)
        return inputs, self._models(inputs, self.weights_)

    def _targets(self, y: Any, n: int) -> list[np.ndarray]:
        """The labels of each input, flat."""
        with gm.naming("y"):
            targets = [np.ravel(np.asarray(t)) for t in y]
        if len(targets) != n:
            raise ValueError(f"y: expected labels for {n} inputs, got {len(targets)}")
        return targets

    def _classes(self, targets: list[np.ndarray]) -> np.ndarray:
        for k, own in enumerate(targets):
            if own.dtype.kind == "f" and not np.isfinite(own).all():
                raise ValueError(f"y[{k}]: contains NaN or inf")
        flat = np.concatenate(targets)
        try:
            return np.unique(flat)
        except TypeError:
            kinds = [{type(label).__name__ for label in own.tolist()} for own in targets]
            k = next((k for k, own in enumerate(kinds) if own != kinds[0]), 0)
            names = ", ".join(sorted(kinds[0] | kinds[k]))
            raise TypeError(
                f"y[{k}]: expected labels that can be sorted, got labels of types {names}"
            ) from None

    def _encode(self, k: int, own: np.ndarray) -> np.ndarray:
        """Labels (V,) of input k as numbers."""
        place = np.minimum(np.searchsorted(self.classes_, own), len(self.classes_) - 1)
        unknown = np.flatnonzero(self.classes_[place] != own)
        if unknown.size:
            label = own[unknown[:1]].tolist()[0]
            raise ValueError(f"y[{k}]: the label {label!r} was not seen in training")
        return place

    def _states(self) -> None:
        """int (n_states,): the label of each hidden state."""
        n = len(self.classes_)
        with gm.naming("n_states_per_label"):
            states = np.asarray(self.n_states_per_label)
        if states.dtype.kind not in "iu" or states.shape not in ((), (n,)) or (states < 1).any():
            raise ValueError(
                f"n_states_per_label: expected a whole number >= 1, or one for each of the {n} "
                f"labels, got {self.n_states_per_label!r}"
            )
        self.label_of_state_ = np.repeat(np.arange(n), np.broadcast_to(states, n))

    def _class_weights(self, labels: list[np.ndarray]) -> np.ndarray:
        from sklearn.utils.class_weight import compute_class_weight

        flat = self.classes_[np.concatenate(labels)]
        return compute_class_weight(self.class_weight, classes=self.classes_, y=flat)

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike) -> None:
        """Write an .npz file; it loads without executing code."""
        check_is_fitted(self, "model_")
        plain = (str, int, float, bool, type(None), list, tuple)
        parameters = {n: v for n, v in self.get_params().items() if isinstance(v, plain)}
        dates = self.classes_.dtype.kind in "mM"
        about = {
            "kind": type(self).__name__,
            "parameters": parameters,
            "classes": self.classes_.view(np.int64).tolist() if dates else self.classes_.tolist(),
            "dtype": self.classes_.dtype.str,
            "states": self.label_of_state_.tolist(),
            "kept": {name: np.asarray(getattr(self, name)).tolist() for name in self.kept},
        }
        replace(self.model_, settings={**self.model_.settings, "estimator": about}).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike, **parameters: Any) -> Self:
        """What `save` wrote; `parameters` that no file holds (functions, objects) go beside it."""
        model = gm.load(path)
        about = model.settings.get("estimator", {})
        if about.get("kind") != cls.__name__:
            raise ValueError(
                f"{os.fspath(path)}: expected a saved {cls.__name__}, got "
                f"{about.get('kind', 'another trained model')}"
            )
        found = cls(**{**about["parameters"], **parameters})
        found.model_ = model
        found.classes_ = np.array(about["classes"]).astype(about["dtype"])
        found.label_of_state_ = np.array(about["states"], np.int64)
        for name, value in about["kept"].items():
            setattr(found, name, np.array(value))
        return found


@dataclass(eq=False, repr=False)
class StructuredEstimator(StructuredBase):
    """An estimator from a function that turns one input into a model.

    Parameters
    ----------
    build : ``build(x, n_labels) -> gmlearn.CRF``, with one variable for each label of the input.

    Further parameters as in `StructuredBase`.

    Examples
    --------
    >>> import gmlearn as gm, numpy as np
    >>> from gmlearn_structured import StructuredEstimator
    >>> def ring(x, n_labels):
    ...     n = len(x)
    ...     crf = gm.CRF(n, n_labels)
    ...     crf.add(gm.Unary(x))
    ...     crf.add(gm.Potts([[i, (i + 1) % n] for i in range(n)], weight="smooth"))
    ...     return crf
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat(rng.permutation(["a", "b"]), 4) for _ in range(6)]
    >>> X = [np.eye(2)[(t == "b").astype(int)] + 0.4 * rng.normal(size=(8, 2)) for t in y]
    >>> StructuredEstimator(ring).fit(X, y).score(X, y) > 0.9
    True
    """

    build: Callable[[Any, int], gm.CRF] | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.build):
            raise TypeError(f"build: expected a function of (x, n_labels), got {self.build!r}")

    def build_model(self, x: Any, n_states: int) -> gm.CRF:
        assert self.build is not None
        crf = self.build(x, n_states)
        if not isinstance(crf, gm.CRF):
            raise TypeError(f"build: expected a gmlearn.CRF, got {type(crf).__name__}")
        return crf


def read_rows(rows: Any, what: str = "rows of features") -> Any:
    """Features (n, F) of one input, dense or sparse, with at least one row."""
    if hasattr(rows, "tocsr"):
        found = rows.tocsr()
    elif isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
        raise TypeError(
            f"expected {what}, got mappings from names to values; SequenceVectorizer makes "
            f"features of them"
        )
    else:
        found = gm.check_array(what, rows, ndim=2)
    if found.shape[0] == 0:
        raise ValueError(f"expected at least one of its {what}, got none")
    return found


def dense_rows(rows: Any) -> np.ndarray:
    """The same as a dense array."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


def is_tree(crf: gm.CRF) -> bool:
    """Has the graph of the pairs no cycle, and are there only pairs?"""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    blocks = crf.clique_blocks
    if any(block.arity > 2 for block in blocks):
        return False
    edges = np.concatenate([np.zeros((0, 2), np.int64), *(b.variables for b in blocks)])
    edges = np.unique(np.sort(edges, axis=1), axis=0)
    graph = csr_array((np.ones(len(edges)), tuple(edges.T)), (crf.n_vars, crf.n_vars))
    return len(edges) == crf.n_vars - connected_components(graph, directed=False)[0]


def consecutive(n: int) -> np.ndarray:
    """The edges (n - 1, 2) of a chain."""
    return np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
