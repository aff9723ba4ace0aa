"""`gm.read` and `gm.write`: the format is found by the extension."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gmlearn._utils.files import check_path
from gmlearn.io.base import FileFormat, Path
from gmlearn.io.uai import read_evidence
from gmlearn.model import CRF
from gmlearn.registry import registry


def read(path: Path, evidence: Path | Mapping[int, int] | None = None) -> CRF:
    """Read a model; the format is found by the extension.

    Parameters
    ----------
    path : a file ``.uai``, ``.wcsp``, ``.cfn`` (each also ``.gz``), ``.npz``, or what a plugin
        registers.
    evidence : a UAI evidence file with one sample, or a mapping variable -> label; these variables
        are fixed.

    Notes
    -----
    Energies are minimised. UAI: minus the logarithm of each factor value, 0 = forbidden. WCSP and
    CFN: the costs; one that reaches the upper bound is forbidden. Malformed files raise
    `FormatError` with file, line, what was expected, what came.

    Examples
    --------
    >>> import gmlearn as gm
    >>> crf = gm.read("grid.uai.gz", evidence="grid.uai.evid")  # doctest: +SKIP
    """
    crf = _format_of(path).read(path)
    if evidence is None:
        return crf
    if isinstance(evidence, Mapping):
        return crf.clamp(evidence)
    samples = read_evidence(check_path("evidence", evidence), crf.n_states)
    if len(samples) != 1:
        raise ValueError(
            f"evidence: {os.fspath(evidence)} holds {len(samples)} samples, expected one; choose "
            f"among "
            f"gmlearn.io.read_evidence(path) and give that mapping"
        )
    return crf.clamp(samples[0])


def write(crf: CRF, path: Path, weights: Any = None) -> None:
    """Store a model; the format is found by the extension. The file is replaced whole or not at
    all.

    Parameters
    ----------
    path : ``.npz`` keeps the whole model, blocks and named weights; ``.uai`` (also ``.gz``) keeps
        its energy as tables.
    weights : values of the weight segments. Needed for UAI if the model has any; in npz they are
        stored beside the model.
    """
    if not isinstance(crf, CRF):
        raise TypeError(f"crf: expected a gmlearn.CRF, got {type(crf).__name__}")
    _format_of(path).write(crf, path, weights)


def _format_of(path: Path) -> FileFormat:
    name = check_path("path", path)
    formats = registry.objects("format")
    fitting = [(len(e), f) for f in formats for e in f.extensions if name.lower().endswith(e)]
    if not fitting:
        known = sorted(e for f in formats for e in f.extensions)
        raise ValueError(
            f"path: no file format for {name!r}; known extensions: {', '.join(known) or 'none'}"
        )
    return max(fitting, key=lambda pair: pair[0])[1]
