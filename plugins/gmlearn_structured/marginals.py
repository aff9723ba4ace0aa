"""Marginals of many models at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import gmlearn as gm


def node_marginals(models: Sequence[gm.CRF], weights: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The probabilities (V, L) of the labels under exp(-E), model by model; exact on forests."""
    union = gm.join(models)
    named = {name: weights[name] for name in union.layout.shapes}
    slaves = gm.decompose(union, "trees", "log_partition")
    if (slaves.count > 1).any():
        raise ValueError("predict_marginals: the models have cycles, or cliques beyond edges")
    dual = gm.Dual(slaves, named)
    theta, found = dual.share, np.empty(len(slaves.coords))
    for group, where, prepared in zip(slaves.groups, slaves.slices, dual.prepared):
        found[where] = group.log_partition(theta[where], prepared, 1.0).marginals  # type: ignore[attr-defined]
    shares = slaves.mean(found)
    ends = union.offsets[union.parts[1:-1]]
    return [p.reshape(m.n_vars, -1) for p, m in zip(np.split(shares, ends), models)]
