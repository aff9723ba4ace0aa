"""Structured losses and layers for PyTorch.

The slaves run on the CPU in 64 bits; values and gradients come back in the dtype, and on the
device, of the costs. A module keeps the dual state of each sample id between epochs, in the process
that calls it: batches may come from any number of `DataLoader` workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gmlearn.layers.host import Host, LayerBase, LossBase

try:
    import torch
except ImportError as error:
    raise ImportError(
        "gmlearn.layers.torch needs PyTorch: pip install 'gmlearn[torch]' (the extra `torch`)"
    ) from error


class StructuredLoss(LossBase, torch.nn.Module):
    __doc__ = LossBase.__doc__

    def _loss(self, given: Any, fixed: Any) -> torch.Tensor:
        tree = Tree(given)
        total = _Loss.apply(self.host, tree, _numpy(fixed), *tree.tensors)
        return total / len(given[0]) if self.reduction == "mean" else total


class StructuredLayer(LayerBase, torch.nn.Module):
    __doc__ = LayerBase.__doc__

    def _answer(self, unary: Any, weights: dict[str, Any], ids: Any) -> Any:
        tree, fixed = Tree(unary), (_numpy(weights), _numpy(ids))
        if self.output == "labels":
            found = self.host.labels(tree.arrays(tree.tensors), *fixed)
            labels = [torch.as_tensor(a, device=tree.tensors[0].device) for a in found]
            return torch.stack(labels) if isinstance(unary, torch.Tensor) else labels
        return tree.rebuilt(_Marginals.apply(self.host, tree, fixed, *tree.tensors))


class Tree:
    """Nested lists, tuples and mappings with tensors at their leaves, of which autograd sees the
    tensors alone.
    """

    def __init__(self, given: Any):
        self.tensors: list[torch.Tensor] = []
        #: the nest with numbers of tensors in their place
        self.nest = self._numbered(given)

    def _numbered(self, given: Any) -> Any:
        if isinstance(given, Mapping):
            return {name: self._numbered(value) for name, value in given.items()}
        if isinstance(given, (list, tuple)):
            return [self._numbered(value) for value in given]
        if given is None:
            return None
        self.tensors.append(torch.as_tensor(given))
        return len(self.tensors) - 1

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        """The same nest with other leaves."""

        def filled(nest: Any) -> Any:
            if isinstance(nest, dict):
                return {name: filled(value) for name, value in nest.items()}
            if isinstance(nest, list):
                return [filled(value) for value in nest]
            return None if nest is None else leaves[nest]

        return filled(self.nest)

    def arrays(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The nest with NumPy arrays."""
        return self.rebuilt([t.detach().cpu().numpy() for t in tensors])

    def gradients(self, slopes: Any, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The leaves of a nest of arrays like this one, as tensors like the given ones."""
        flat: list[Any] = [None] * len(tensors)

        def fill(nest: Any, part: Any) -> None:
            if isinstance(nest, dict):
                for name, value in nest.items():
                    fill(value, part[name])
            elif isinstance(nest, list):
                for value, own in zip(nest, part):
                    fill(value, own)
            elif nest is not None:
                array = torch.as_tensor(np.asarray(part)).to(tensors[nest])
                flat[nest] = array.reshape(tensors[nest].shape)

        fill(self.nest, slopes)
        return flat


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, host: Host, tree: Tree, fixed: Any, *tensors: torch.Tensor) -> Any:
        unary, weights, costs = tree.arrays(tensors)
        value, *slopes = host.loss(unary, fixed[0], weights, costs, fixed[1])
        ctx.save_for_backward(*tree.gradients(slopes, tensors))
        return tensors[0].new_tensor(value)

    @staticmethod
    def backward(ctx: Any, change: torch.Tensor) -> Any:  # type: ignore[override]
        return None, None, None, *(change * slope for slope in ctx.saved_tensors)


class _Marginals(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, host: Host, tree: Tree, fixed: Any, *tensors: torch.Tensor) -> Any:
        ctx.host, ctx.tree, ctx.fixed = host, tree, fixed
        ctx.save_for_backward(*tensors)
        found = host.marginals(tree.arrays(tensors), *fixed)
        return tuple(tree.gradients(found, tensors))

    @staticmethod
    def backward(ctx: Any, *changes: torch.Tensor) -> Any:
        tree, tensors = ctx.tree, ctx.saved_tensors
        unary, change = tree.arrays(tensors), tree.arrays(changes)
        slopes = ctx.host.pull_back(unary, *ctx.fixed, change)
        return None, None, None, *tree.gradients(slopes, tensors)


def _numpy(given: Any) -> Any:
    """Tensors in a nest as NumPy arrays."""
    tree = Tree(given)
    return tree.arrays(tree.tensors)
