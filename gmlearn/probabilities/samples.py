"""Labellings drawn from the distribution of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.validation import check_number
from gmlearn.model.crf import CRF
from gmlearn.probabilities.auto import eliminable
from gmlearn.probabilities.method import MarginalProblem, MethodRefusal
from gmlearn.solvers import solve


@dataclass(repr=False)
class Samples:
    """Labellings drawn from p(x) = exp(-E(x)/T) / Z.

    labels : int (n, V).   exact : are they independent draws from p? Otherwise they are
        approximate.   method : "elimination", or "perturb-and-map".
    """

    labels: np.ndarray
    exact: bool
    method: str

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> Any:
        return self.labels[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.labels, dtype=dtype)

    def frequencies(self, n_labels: int | None = None) -> np.ndarray:
        """float (V, L): how often each variable has each label."""
        size = int(self.labels.max(initial=0)) + 1 if n_labels is None else n_labels
        return (self.labels[:, :, None] == np.arange(size)).mean(axis=0)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "approximate"
        n, v = self.labels.shape
        return f"Samples(n={n}, V={v}, {kind}, method={self.method!r})"


def sample(
    crf: CRF,
    weights: Any = None,
    n: int = 1,
    seed: int = 0,
    temperature: float = 1.0,
) -> Samples:
    r"""Labellings drawn from :math:`p(x) = e^{-E(x; w)/T} / Z`.

    Exact where elimination is in reach: forests and small induced width. Elsewhere by
    perturb-and-MAP (Papandreou and Yuille 2011): the labelling of least energy with Gumbel noise on
    the costs of single labels, which is approximate and said to be so.

    Parameters
    ----------
    crf, weights : the model.
    n : how many.
    seed : the same seed gives the same labellings.
    temperature : T > 0.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.CRF(2, 2).add_unary([[0, 1], [0, 0]])
    >>> gm.sample(crf, n=1000)
    Samples(n=1000, V=2, exact, method='elimination')
    """
    if not isinstance(crf, CRF):
        raise TypeError(f"crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    check_number("n", n, low=0, integer=True)
    check_number("seed", seed, low=0, integer=True)
    check_number("temperature", temperature, low=0, high=np.inf, strict=True)
    w = crf.check_weights(weights)
    rng = np.random.default_rng(seed)
    tree = eliminable(MarginalProblem(crf, w, float(temperature), seed=seed))
    if tree is None:
        return Samples(_perturbed(crf, w, n, rng, temperature), False, "perturb-and-map")
    if tree.log_partition == -np.inf:
        raise MethodRefusal(f"crf: no labelling of {crf} is feasible, there is nothing to draw")
    return Samples(tree.sample(n, rng), True, "elimination")


def _perturbed(
    crf: CRF, w: Mapping[str, np.ndarray], n: int, rng: np.random.Generator, temperature: float
) -> np.ndarray:
    """Minimisers (n, V) of the energy minus Gumbel noise."""
    out = np.empty((n, crf.n_vars), np.int64)
    for k in range(n):
        noisy = crf.copy()
        noisy.unary = noisy.unary - temperature * rng.gumbel(size=len(noisy.unary))
        found = solve(noisy, w, gap=1e-3)
        if not np.isfinite(found.energy):
            raise MethodRefusal(f"crf: no feasible labelling of {crf} was found")
        out[k] = found.labels
    return out
