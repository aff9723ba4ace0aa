"""Structured losses and layers for JAX: ``custom_vjp`` around a callback, so that they work under
``jit`` and ``grad``.

The slaves run on the host (CPU) in 64 bits; values and gradients come back in the dtype of the
costs. Models and settings are fixed when a layer is made; costs, labels, ids and weights are
arrays, traced or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gmlearn.layers.host import Host, options_of_layer
from gmlearn.model.crf import CRF

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError(
        "gmlearn.layers.jax needs JAX: pip install 'gmlearn[jax]' (the extra `jax`)"
    ) from error


class StructuredLoss:
    """The mean loss of a batch (`gmlearn.structured_loss`) under costs from a network.

    Parameters
    ----------
    models : one for all samples, or a list with one for each sample id; their own unary costs are
        added to those of the network.
    kind, options : as in `gmlearn.structured_loss`.
    reduction : "mean" or "sum" over the batch.

    Examples
    --------
    >>> import gmlearn as gm, jax, jax.numpy as jnp
    >>> from gmlearn.layers.jax import StructuredLoss
    >>> crf = gm.CRF(3, 2)
    >>> _ = crf.add(gm.Potts([[0, 1], [1, 2]], 0.5))
    >>> loss = StructuredLoss(crf, kind="likelihood")
    >>> costs, truth = jnp.zeros((1, 3, 2)), jnp.array([[0, 0, 0]])
    >>> jax.jit(jax.grad(loss))(costs, truth)[0, 0].tolist()
    [0.5, -0.5]
    """

    def __init__(
        self,
        models: CRF | Sequence[CRF],
        kind: str = "hinge",
        *,
        reduction: str = "mean",
        **options: Any,
    ):
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction: expected 'mean' or 'sum', got {reduction!r}")
        self.host = Host(models, kind=kind, **options)
        self.reduction = reduction
        self._value = self._differentiable()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_value": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._value = self._differentiable()

    def __call__(
        self,
        unary: Any,
        truth: Any,
        ids: Any = None,
        weights: Mapping[str, Any] | None = None,
        costs: Sequence[Mapping[Any, Any]] | None = None,
    ) -> jax.Array:
        """The loss, a number.

        Parameters
        ----------
        unary : (B, V, L), or a list of (V, L); rows beyond a model's variables are ignored.
        truth : int (B, V), or a list of (V,).
        ids : int (B,), the samples: they choose the models of a list, and the dual state of each
            is kept for the next call. By default all models of a list, in order.
        weights : of the models, by segment.
        costs : for each sample a mapping from the number of a block to its costs, in the shape of
            `LossResult.blocks`: tables or strengths that come from a network.
        """
        return self._value((unary, dict(weights or {}), costs), (truth, ids))

    def _differentiable(self) -> Any:
        @jax.custom_vjp
        def value(given: Any, fixed: Any) -> jax.Array:
            return self._call(given, fixed)[0]

        def forward(given: Any, fixed: Any) -> tuple[jax.Array, Any]:
            found, slopes = self._call(given, fixed)
            return found, (slopes, fixed)

        def backward(kept: Any, change: jax.Array) -> tuple[Any, Any]:
            slopes, fixed = kept
            return jax.tree.map(lambda s: (change * s).astype(s.dtype), slopes), _nothing(fixed)

        value.defvjp(forward, backward)
        return value

    def _call(self, given: Any, fixed: Any) -> Any:
        dtype = jnp.result_type(*jax.tree.leaves(given[0]))
        shapes = jax.ShapeDtypeStruct((), dtype), _shapes(given)
        return jax.pure_callback(self._on_host, shapes, given, fixed, vmap_method="sequential")

    def _on_host(self, given: Any, fixed: Any) -> Any:
        given, fixed = jax.tree.map(np.asarray, (given, fixed))
        unary, weights, costs = given
        value, rows, *rest = self.host.loss(unary, fixed[0], weights, costs, fixed[1])
        scale = 1.0 / len(unary) if self.reduction == "mean" else 1.0
        stacked: Any = rows if isinstance(unary, (list, tuple)) else np.stack(rows)
        leaves = jax.tree.leaves((stacked, rest))
        shapes, tree = jax.tree.flatten(given)
        dtype = np.result_type(*(a.dtype for a in jax.tree.leaves(unary)))
        cast = [np.asarray(scale * a, s.dtype).reshape(s.shape) for a, s in zip(leaves, shapes)]
        return np.asarray(scale * value, dtype), jax.tree.unflatten(tree, cast)


class StructuredLayer:
    """Marginals, or labels, of a batch of models under costs from a network.

    Parameters
    ----------
    models : as in `StructuredLoss`.
    output : "marginals", relaxed indicators at a temperature, or "sparsemap", sparse ones: both
        differentiable in the unary costs; "labels", the most probable ones, without gradient.
    temperature : of marginals, or of the quadratic term of "sparsemap".
    options : of `gmlearn.relaxed`.
    """

    def __init__(
        self,
        models: CRF | Sequence[CRF],
        output: str = "marginals",
        *,
        temperature: float = 1.0,
        **options: Any,
    ):
        self.host = Host(models, **options_of_layer(output, temperature), **options)
        self.output = output
        self._value = self._differentiable()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_value": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._value = self._differentiable()

    def __call__(
        self, unary: Any, ids: Any = None, weights: Mapping[str, Any] | None = None
    ) -> Any:
        """Marginals in the shape of `unary`, or labels int (B, V) (a list of (V,) for a list).

        unary, ids, weights : as in `StructuredLoss`; weights have no gradient here.
        """
        fixed = jax.lax.stop_gradient(dict(weights or {})), ids
        if self.output != "labels":
            return self._value(unary, fixed)
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[:-1], jnp.int32), unary)
        return jax.pure_callback(self._labels, shapes, unary, fixed, vmap_method="sequential")

    def _labels(self, unary: Any, fixed: Any) -> Any:
        found = [a.astype(np.int32) for a in self.host.labels(unary, *fixed)]
        return found if isinstance(unary, (list, tuple)) else np.stack(found)

    def _differentiable(self) -> Any:
        def call(function: Any, unary: Any, *rest: Any) -> Any:
            return jax.pure_callback(
                function, _shapes(unary), unary, *rest, vmap_method="sequential"
            )

        @jax.custom_vjp
        def value(unary: Any, fixed: Any) -> Any:
            return call(self._marginals, unary, fixed)

        def forward(unary: Any, fixed: Any) -> tuple[Any, Any]:
            return value(unary, fixed), (unary, fixed)

        def backward(kept: Any, change: Any) -> tuple[Any, Any]:
            unary, fixed = kept
            return call(self._pull_back, unary, fixed, change), _nothing(fixed)

        value.defvjp(forward, backward)
        return value

    def _marginals(self, unary: Any, fixed: Any) -> Any:
        return _as(unary, self.host.marginals(unary, *fixed))

    def _pull_back(self, unary: Any, fixed: Any, change: Any) -> Any:
        weights, ids = fixed
        rows = [np.asarray(c) for c in change]
        return _as(unary, self.host.pull_back(unary, weights, ids, rows))


def _shapes(tree: Any) -> Any:
    """Shapes and dtypes of arrays, as a callback returns them."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), tree)


def _as(unary: Any, found: list[np.ndarray]) -> Any:
    """Arrays of each sample in the form and dtype of `unary`."""
    if isinstance(unary, (list, tuple)):
        return type(unary)(f.astype(u.dtype) for f, u in zip(found, unary))
    return np.stack(found).astype(unary.dtype)


def _nothing(fixed: Any) -> Any:
    """The gradient in arrays that have none."""

    def zero(a: Any) -> Any:
        whole = jnp.issubdtype(jnp.result_type(a), jnp.integer)
        return np.zeros(jnp.shape(a), jax.dtypes.float0) if whole else jnp.zeros_like(a)

    return jax.tree.map(zero, fixed)
