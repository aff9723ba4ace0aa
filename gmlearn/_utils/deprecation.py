"""How public names go: the one helper for it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def deprecated(instead: str, removed_in: str) -> Callable[[Function], Function]:
    """Mark a function as one that goes: it works, and every call warns with a ``FutureWarning``.

    Parameters
    ----------
    instead : what to write from now on.   removed_in : the version without it.
    """

    def mark(function: Function) -> Function:
        message = f"{function.__name__} goes in gmlearn {removed_in}; write {instead} instead"

        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(message, FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned  # type: ignore[return-value]

    return mark
