"""Training samples as files: the model's archive with labels, hidden variables and the sample's
factor beside it.
"""

from __future__ import annotations

import os

import numpy as np

from gmlearn.io.archive import read_archive, write_archive
from gmlearn.io.base import FormatError, Path
from gmlearn.io.npz import pack_model, unpack_model
from gmlearn.learn.sample import Sample, check_sample


def write_sample(sample: Sample, path: Path) -> None:
    """Store a training sample as ``.npz``, whole or not at all; `read_sample` reads it, executing
    nothing.

    A loss or completion of the sample's own is code, which no file holds: give the loss to
    `gmlearn.train` instead.
    """
    checked = check_sample(0, sample)
    if checked.loss is not None or checked.completion is not None:
        raise ValueError(
            f"sample: {os.fspath(path)} cannot hold the sample's own "
            f"{'loss' if checked.loss else 'completion'}"
        )
    arrays = pack_model(checked.crf, path)
    arrays["sample.labels"] = checked.labels
    arrays["sample.weight"] = np.array([checked.weight])
    for name in ("hidden", "allowed"):
        if getattr(checked, name) is not None:
            arrays[f"sample.{name}"] = np.asarray(getattr(checked, name), bool)
    if checked.start is not None:
        arrays["sample.start"] = checked.start
    write_archive(path, arrays)


def read_sample(path: Path) -> Sample:
    """A training sample from a file that `write_sample` wrote."""
    arrays = read_archive(path)
    names = ("labels", "weight", "hidden", "allowed", "start")
    own = {name: arrays.pop(f"sample.{name}", None) for name in names}
    labels, weight = own["labels"], own["weight"]
    if labels is None or labels.dtype != np.int64 or weight is None or weight.shape != (1,):
        raise FormatError(
            path, "a training sample, with labels and a weight", "a file without them"
        )
    crf, _ = unpack_model(path, arrays)
    try:
        return check_sample(
            0,
            Sample(
                crf,
                labels,
                _mask(own["hidden"]),
                float(weight[0]),
                allowed=_mask(own["allowed"]),
                start=own["start"],
            ),
        )
    except ValueError as error:
        raise FormatError(path, "labels that fit the model", str(error)[:200]) from None


def _mask(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else array.astype(bool)
