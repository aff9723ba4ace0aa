"""Checkpoints: all that a training run remembers, as arrays in one file that is whole or absent."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from gmlearn._utils.archive import load_arrays, save_arrays
from gmlearn.learn.history import TrainingHistory

KIND = "gmlearn checkpoint"


def save_checkpoint(path: str | os.PathLike, fingerprint: dict[str, Any], state: dict[str, np.ndarray], truths: list[np.ndarray],
                    best: np.ndarray, history: TrainingHistory, progress: dict[str, Any]) -> None:
    """Write the state of a run after a pass."""
    arrays = {f"state_{name}": np.asarray(value) for name, value in state.items()}
    arrays |= {f"truth_{k}": truth for k, truth in enumerate(truths)}
    arrays |= {f"history_{name}": value for name, value in history.arrays().items()}
    arrays["best"] = best
    save_arrays(path, {"kind": KIND, "fingerprint": fingerprint, "progress": progress}, arrays)


def load_checkpoint(path: str | os.PathLike, fingerprint: dict[str, Any]
                    ) -> tuple[dict[str, np.ndarray], list[np.ndarray], np.ndarray, TrainingHistory, dict[str, Any]]:
    """What `save_checkpoint` wrote, if it belongs to the same problem."""
    header, arrays = load_arrays(path, KIND)
    stored = header.get("fingerprint", {})
    if stored != fingerprint:
        changed = sorted(k for k in {*stored, *fingerprint} if stored.get(k) != fingerprint.get(k))
        raise ValueError(f"{os.fspath(path)}: the checkpoint belongs to another training problem (different: "
                         f"{', '.join(changed)}); remove it, or pass another checkpoint path")
    state = {n[6:]: a for n, a in arrays.items() if n.startswith("state_")}
    truths = [arrays[f"truth_{k}"] for k in range(sum(n.startswith("truth_") for n in arrays))]
    history = TrainingHistory.from_arrays({n[8:]: a for n, a in arrays.items() if n.startswith("history_")})
    return state, truths, arrays["best"], history, header["progress"]
