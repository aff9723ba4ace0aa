"""Tables at the door: what counts as one table (n, d), and how its columns fall into views."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import gmlearn as gm
from gmlearn_groupfs.kernels import KernelBank


def is_table(X: Any) -> bool:
    """One array (n, d), a data frame or a list of rows, as opposed to views, kernels or a bank?"""
    if isinstance(X, (KernelBank, str, bytes)):
        return False
    if sp.issparse(X) or hasattr(X, "ndim") or hasattr(X, "columns"):
        return np.ndim(X) < 3
    return hasattr(X, "__len__") and all(np.ndim(row) < 2 for row in X) and len(X) > 0


def view_columns(views: Any, n_columns: int) -> list[np.ndarray]:
    """The columns of every view, from widths or selections; None for one view of all columns."""
    if views is None:
        return [np.arange(n_columns)]
    views = list(views)
    if not views:
        raise ValueError("views: expected at least one view, got none")
    if all(np.ndim(view) == 0 and not isinstance(view, slice) for view in views):
        widths = [int(gm.check_number("views", view, low=1, integer=True)) for view in views]
        if sum(widths) != n_columns:
            raise ValueError(
                f"views: expected widths that add up to the {n_columns} columns of X, got "
                f"{widths}, in all {sum(widths)}"
            )
        return np.split(np.arange(n_columns), np.cumsum(widths)[:-1])
    everything = np.arange(n_columns)
    chosen = [
        everything[view] if isinstance(view, slice) else gm.check_index("views", view, n_columns)
        for view in views
    ]
    if any(columns.size == 0 for columns in chosen):
        raise ValueError("views: expected at least one column in every view")
    return chosen
