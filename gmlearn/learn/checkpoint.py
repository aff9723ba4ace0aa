"""Checkpoints: all that a training run remembers, as arrays in one file that is whole or absent."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gmlearn._utils.archive import load_arrays, save_arrays
from gmlearn.learn.history import TrainingHistory

KIND = "gmlearn checkpoint"


def save_checkpoint(
    path: str | os.PathLike,
    fingerprint: dict[str, Any],
    snapshot: dict[str, Any],
    best: np.ndarray,
    history: TrainingHistory,
    progress: dict[str, Any],
) -> None:
    """Write the state of a run after a pass."""
    arrays = {f"state_{name}": np.asarray(value) for name, value in snapshot["state"].items()}
    arrays |= {
        f"sample{k}_{name}": np.asarray(value)
        for k, kept in enumerate(snapshot["samples"])
        for name, value in kept.items()
    }
    arrays |= {f"history_{name}": value for name, value in history.arrays().items()}
    arrays["best"] = best
    save_arrays(path, {"kind": KIND, "fingerprint": fingerprint, "progress": progress}, arrays)


def load_checkpoint(
    path: str | os.PathLike, fingerprint: dict[str, Any]
) -> tuple[dict[str, Any], np.ndarray, TrainingHistory, dict[str, Any]]:
    """What `save_checkpoint` wrote, if it belongs to the same problem."""
    header, arrays = load_arrays(path, KIND)
    stored = header.get("fingerprint", {})
    if stored != fingerprint:
        changed = sorted(k for k in {*stored, *fingerprint} if stored.get(k) != fingerprint.get(k))
        raise ValueError(
            f"{os.fspath(path)}: the checkpoint belongs to another training problem (different: "
            f"{', '.join(changed)}); remove it, or pass another checkpoint path"
        )
    samples: list[dict[str, np.ndarray]] = [{} for _ in range(int(fingerprint["samples"]))]
    for name, array in arrays.items():
        if name.startswith("sample"):
            number, _, what = name.removeprefix("sample").partition("_")
            if not number.isdecimal() or int(number) >= len(samples):
                raise ValueError(
                    f"{os.fspath(path)}: not a {KIND} file, or damaged (an array {name!r})"
                )
            samples[int(number)][what] = array
    snapshot = {
        "state": {n[6:]: a for n, a in arrays.items() if n.startswith("state_")},
        "samples": samples,
    }
    history = TrainingHistory.from_arrays(
        {n[8:]: a for n, a in arrays.items() if n.startswith("history_")}
    )
    return snapshot, arrays["best"], history, header["progress"]
