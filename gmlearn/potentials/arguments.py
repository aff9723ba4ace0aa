"""What a block was made of: the arguments of its constructor, and the lengths of its arrays."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np


def arguments_of(block: Any) -> dict[str, Any]:
    """The cliques as the constructor's first argument, and the attributes named like the others."""
    kind: Any = type(block)  # mypy takes no class for a key
    names = _argument_names(kind)
    own = {name: vars(block)[name] for name in names if name in vars(block)}
    if names and names[0] not in own:
        own[names[0]] = block.cliques
    missing = [name for name in names if name not in own]
    if missing:
        raise ValueError(
            f"{block}: the argument {missing[0]!r} of {type(block).__name__} is no attribute of "
            f"the block; give the class state(), the arguments that make the block again"
        )
    return own


@functools.cache
def _argument_names(kind: type) -> list[str]:
    return list(inspect.signature(kind).parameters)


def check_lengths(block: Any) -> None:
    """One entry for each clique, or for each member, where the class says so."""
    for length, names in (
        (len(block), block.per_clique),
        (len(block.members), getattr(block, "per_member", ())),
    ):
        for name in names:
            value = getattr(block, name)
            if value is not None and (np.ndim(value) < 1 or np.shape(value)[0] != length):
                raise ValueError(
                    f"{block}: {name}: expected an array with a leading {length}, got shape "
                    f"{np.shape(value)}"
                )


def check_names(block: Any) -> None:
    """The weight segments of a bound block have names."""
    for name in block.segments():
        if not isinstance(name, str):
            raise ValueError(f"{block}: weight segments are named by strings, got {name!r}")
