"""The result of training: named weights that predict, with everything needed to judge and repeat
them.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gmlearn._utils.archive import damage_named, load_arrays, save_arrays
from gmlearn._utils.files import check_path
from gmlearn._version import __version__
from gmlearn.learn.history import TrainingHistory
from gmlearn.model.crf import CRF
from gmlearn.parallel import make_executor
from gmlearn.probabilities import Marginals, marginals
from gmlearn.solvers import Result, solve
from gmlearn.solvers.many import solve_forests


def versions() -> dict[str, str]:
    """What the result was computed with."""
    return {"gmlearn": __version__, "python": platform.python_version(), "numpy": np.__version__}


@dataclass
class TrainedModel:
    """Learnt weights.

    weights : name -> array.   objective : F at these weights.   history : `TrainingHistory`.
    completions : completed labels of the latent samples.   settings, seed, versions : how to repeat
    it.   status : why training ended.
    objective_kind : what `objective` is: "exact", "upper bound" (of the hinge or of the negative
        log-likelihood, where slaves share variables), "piecewise" or "pseudo-likelihood".
    exact_objective : at a temperature, the exact objective at these weights lies between these
        two numbers; infinite where it was not looked at.
    """

    weights: dict[str, np.ndarray]
    objective: float
    history: TrainingHistory = field(default_factory=TrainingHistory)
    completions: list[np.ndarray] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    versions: dict[str, str] = field(default_factory=versions)
    status: str = ""
    bound: float = -np.inf
    objective_kind: str = ""
    exact_objective: tuple[float, float] = (-np.inf, np.inf)

    @property
    def gap(self) -> float:
        """objective - bound: how far these weights are from the best ones, at most."""
        return self.objective - self.bound

    def predict(self, crf: CRF, **options: Any) -> Result:
        """MAP inference with the learnt weights; options as in `gmlearn.solve`."""
        if not isinstance(crf, CRF):
            several = hasattr(crf, "__len__")
            hint = "predict_many takes several" if several else "a sample's model is sample.crf"
            raise TypeError(f"predict: expected one gmlearn.CRF, got {type(crf).__name__}; {hint}")
        needed = crf.layout.shapes
        return solve(
            crf, {name: self.weights[name] for name in needed if name in self.weights}, **options
        )

    def predict_marginals(
        self, crf: CRF | Sequence[CRF], **options: Any
    ) -> Marginals | list[Marginals]:
        """Probabilities of labels with the learnt weights, of one model or of each in a list;
        options as in `gmlearn.marginals`.

        The temperature is that of training, 1 for the hinge, unless it is given.
        """
        options.setdefault("temperature", self.settings.get("temperature") or 1.0)
        if not isinstance(crf, CRF):
            return marginals(crf, self.weights, **options)
        needed = crf.layout.shapes
        w = {name: self.weights[name] for name in needed if name in self.weights}
        return marginals(crf, w, **options)

    def predict_many(
        self,
        crfs: Sequence[CRF],
        executor: Any = "auto",
        n_jobs: int = 1,
        scheduler: Any = None,
        **options: Any,
    ) -> list[Result]:
        """`predict` for several models; results in their order.

        Forests are solved at once, as one joined model; others side by side, with an executor as in
        `gmlearn.train`.
        """
        if not options.keys() - {"solver"} and options.get("solver", "auto") in ("auto", "tree"):
            results = solve_forests(crfs, self.weights)
            if results is not None:
                return results
        made = make_executor(executor, n_jobs, scheduler)
        try:
            return made.map(partial(self.predict, **options), crfs)
        finally:
            if made is not executor:
                made.close()

    def plot(self, ax: Any = None) -> Any:
        """Objective against passes."""
        return self.history.plot(ax)

    def save(self, path: str | os.PathLike) -> None:
        """Write an .npz file, whole or not at all; it loads without executing code."""
        check_path("path", path)
        header = {
            "kind": "gmlearn trained model",
            "objective": self.objective,
            "settings": self.settings,
            "seed": self.seed,
            "versions": self.versions,
            "status": self.status,
            "bound": self.bound,
            "objective_kind": self.objective_kind,
            "exact_objective": list(self.exact_objective),
            "completions": len(self.completions),
            "names": list(self.weights),
        }
        arrays: dict[str, np.ndarray] = {
            f"weight{i}": np.asarray(v) for i, v in enumerate(self.weights.values())
        }
        arrays |= {f"history_{name}": value for name, value in self.history.arrays().items()}
        arrays |= {f"completion{k}": labels for k, labels in enumerate(self.completions)}
        save_arrays(path, header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> TrainedModel:
        """Read what `save` wrote."""
        header, arrays = load_arrays(path, "gmlearn trained model")
        with damage_named(path, "gmlearn trained model"):
            history = TrainingHistory.from_arrays(
                {n[8:]: a for n, a in arrays.items() if n.startswith("history_")}
            )
            weights = {str(name): arrays[f"weight{i}"] for i, name in enumerate(header["names"])}
            completions = [arrays[f"completion{k}"] for k in range(int(header["completions"]))]
            return cls(
                weights,
                float(header["objective"]),
                history,
                completions,
                dict(header["settings"]),
                int(header["seed"]),
                dict(header["versions"]),
                str(header["status"]),
                float(header["bound"]),
                str(header["objective_kind"]),
                (float(header["exact_objective"][0]), float(header["exact_objective"][1])),
            )

    def __repr__(self) -> str:
        shapes = {name: value.shape for name, value in self.weights.items()}
        return (
            f"TrainedModel(objective={self.objective:.6g}, weights={shapes}, "
            f"passes={len(self.history)}, objective_kind={self.objective_kind!r}, "
            f"status={self.status!r})"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{n}</td><td>{v.shape}</td>"
            f"<td>{np.array2string(v.ravel()[:6], precision=3)}</td></tr>"
            for n, v in self.weights.items()
        )
        head = "<tr><th>segment</th><th>shape</th><th>weights</th></tr>"
        return f"<b>objective {self.objective:.6g}</b> ({self.status})<table>{head}{rows}</table>"


def load(path: str | os.PathLike) -> TrainedModel:
    """A trained model from a file that `TrainedModel.save` wrote."""
    check_path("path", path)
    return TrainedModel.load(path)


def plain_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they can be written into a file: names and numbers; objects by their
    representation.
    """
    return json.loads(json.dumps({k: v for k, v in settings.items()}, default=repr))
