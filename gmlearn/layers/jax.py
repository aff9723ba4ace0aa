"""Structured losses and layers for JAX: ``custom_vjp`` around a callback, so that they work under
``jit`` and ``grad``.

The slaves run on the host (CPU) in 64 bits; values and gradients come back in the dtype of the
costs. Models and settings are fixed when a layer is made; costs, labels, ids and weights are
arrays, traced or not.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from gmlearn.layers.host import LayerBase, LossBase

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise ImportError(
        "gmlearn.layers.jax needs JAX: pip install 'gmlearn[jax]' (the extra `jax`)"
    ) from error


class StructuredLoss(LossBase):
    __doc__ = f"""{LossBase.__doc__}
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

    def __getstate__(self) -> dict[str, Any]:
        return {"host": self.host, "reduction": self.reduction}

    __call__ = LossBase.forward

    def _loss(self, given: Any, fixed: Any) -> jax.Array:
        return self._value(given, fixed)

    @cached_property
    def _value(self) -> Any:
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
        value, *slopes = self.host.loss(unary, fixed[0], weights, costs, fixed[1])
        scale = 1.0 / len(unary) if self.reduction == "mean" else 1.0
        leaves = jax.tree.leaves(slopes)
        shapes, tree = jax.tree.flatten(given)
        dtype = np.result_type(*(a.dtype for a in jax.tree.leaves(unary)))
        cast = [np.asarray(scale * a, s.dtype).reshape(s.shape) for a, s in zip(leaves, shapes)]
        return np.asarray(scale * value, dtype), jax.tree.unflatten(tree, cast)


class StructuredLayer(LayerBase):
    __doc__ = LayerBase.__doc__

    def __getstate__(self) -> dict[str, Any]:
        return {"host": self.host, "output": self.output}

    __call__ = LayerBase.forward

    def _answer(self, unary: Any, weights: dict[str, Any], ids: Any) -> Any:
        fixed = jax.lax.stop_gradient(weights), ids
        if self.output != "labels":
            return self._value(unary, fixed)
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[:-1], jnp.int32), unary)
        return jax.pure_callback(self._labels, shapes, unary, fixed, vmap_method="sequential")

    def _labels(self, unary: Any, fixed: Any) -> Any:
        found = [a.astype(np.int32) for a in self.host.labels(unary, *fixed)]
        return found if isinstance(unary, (list, tuple)) else np.stack(found)

    @cached_property
    def _value(self) -> Any:
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
        unary, change = jax.tree.map(np.asarray, (unary, change))
        return _as(unary, self.host.pull_back(unary, weights, ids, change))


def _shapes(tree: Any) -> Any:
    """Shapes and dtypes of arrays, as a callback returns them."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), tree)


def _as(unary: Any, found: Any) -> Any:
    """Arrays in the dtype of `unary`."""
    if isinstance(unary, (list, tuple)):
        return type(unary)(f.astype(u.dtype) for f, u in zip(found, unary))
    return found.astype(unary.dtype)


def _nothing(fixed: Any) -> Any:
    """The gradient in arrays that have none."""

    def zero(a: Any) -> Any:
        whole = jnp.issubdtype(jnp.result_type(a), jnp.integer)
        return np.zeros(jnp.shape(a), jax.dtypes.float0) if whole else jnp.zeros_like(a)

    return jax.tree.map(zero, fixed)
