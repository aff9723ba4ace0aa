"""Checkpoints: all that a training run remembers, as arrays in one file that is whole or absent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn._utils.archive import load_arrays, save_arrays
from gmlearn.learn.history import TrainingHistory

KIND = "gmlearn checkpoint"


@dataclass
class Checkpoint:
    """The state of a run after a pass.

    state : arrays of the optimiser.   batches : those of each batch of samples.   best : float
    (P,), the best weights.   history : of all passes.
    """

    state: dict[str, np.ndarray]
    batches: Sequence[dict[str, np.ndarray]]
    best: np.ndarray
    history: TrainingHistory


def save_checkpoint(
    path: str | os.PathLike,
    fingerprint: dict[str, Any],
    kept: Checkpoint,
    progress: dict[str, Any],
) -> None:
    """Write the state of a run after a pass."""
    arrays = {f"state_{name}": np.asarray(value) for name, value in kept.state.items()}
    for b, batch in enumerate(kept.batches):
        arrays |= {f"batch{b}_{name}": value for name, value in batch.items()}
    arrays |= {f"history_{name}": value for name, value in kept.history.arrays().items()}
    header = {"kind": KIND, "fingerprint": fingerprint, "progress": progress}
    save_arrays(path, header, {**arrays, "best": kept.best})


def load_checkpoint(
    path: str | os.PathLike, fingerprint: dict[str, Any], n_batches: int
) -> tuple[Checkpoint, dict[str, Any]]:
    """What `save_checkpoint` wrote, if it belongs to the same problem."""
    header, arrays = load_arrays(path, KIND)
    stored = header.get("fingerprint", {})
    if stored != fingerprint:
        names = {*stored, *fingerprint}
        changed = sorted(k for k in names if stored.get(k) != fingerprint.get(k))
        raise ValueError(
            f"{os.fspath(path)}: the checkpoint belongs to another training problem (different: "
            f"{', '.join(changed)}); remove it, or pass another checkpoint path"
        )
    batches: list[dict[str, np.ndarray]] = [{} for _ in range(n_batches)]
    for name, array in arrays.items():
        if name.startswith("batch"):
            number, _, what = name.removeprefix("batch").partition("_")
            if not number.isdecimal() or int(number) >= n_batches:
                raise ValueError(f"{os.fspath(path)}: not a {KIND} file (an array {name!r})")
            batches[int(number)][what] = array
    state = {n[6:]: a for n, a in arrays.items() if n.startswith("state_")}
    past = {n[8:]: a for n, a in arrays.items() if n.startswith("history_")}
    kept = Checkpoint(state, batches, arrays["best"], TrainingHistory.from_arrays(past))
    return kept, header["progress"]
