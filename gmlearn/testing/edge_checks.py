"""Checks of things at the edges: file formats, experiments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gmlearn.io import FileFormat, FormatError
from gmlearn.model.crf import CRF
from gmlearn.testing.kit import NotApplicable, cases_of, check_of, expect, expect_close
from gmlearn.testing.models import random_labels, small_models
from gmlearn.testing.slave_checks import Weights

FORMAT, EXPERIMENT = "format", "experiment"


@cases_of(FORMAT)
def format_cases(thing: Any, rng: np.random.Generator) -> Iterator[tuple[Any, CRF, Weights]]:
    """(format, crf, w)."""
    for _, crf, w in small_models(rng):
        yield thing, crf, w


def _writes(thing: Any) -> bool:
    return type(thing).write is not FileFormat.write


@check_of(FORMAT)
def check_round_trip_keeps_energies(
    thing: Any, crf: CRF, w: Weights, rng: np.random.Generator
) -> None:
    """What is written and read again has the same variables and the same energy at every
    labelling, inf included.
    """
    if not _writes(thing):
        raise NotApplicable("the format is only read")
    for extension in thing.extensions:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{extension}"
            thing.write(crf, path, w)
            again = thing.read(path)
        expect(
            np.array_equal(again.n_states, crf.n_states),
            f"{extension}: states {again.n_states}, were {crf.n_states}",
        )
        weights = w if again.layout.shapes else None
        for _ in range(10):
            x = random_labels(rng, crf)
            expect_close(
                again.energy(x, weights),
                crf.energy(x, w),
                f"{extension}: energy at {x.tolist()} after a round trip",
            )


@check_of(FORMAT, whole=True)
def check_bad_files_are_refused(thing: Any, rng: np.random.Generator) -> None:
    """An empty file, noise, and a truncated one: FormatError, never a crash or a model."""
    _, crf, w = next(small_models(rng))
    for extension in thing.extensions:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"model{extension}"
            contents = {
                "an empty file": b"",
                "noise": rng.integers(0, 256, 200).astype(np.uint8).tobytes(),
            }
            if _writes(thing):
                thing.write(crf, path, w)
                whole = path.read_bytes()
                contents["a truncated file"] = whole[: len(whole) // 2]
            for what, content in contents.items():
                path.write_bytes(content)
                _expect_refused(thing, path, f"{extension}: {what}")


def _expect_refused(thing: Any, path: Path, what: str) -> None:
    try:
        found = thing.read(path)
    except FormatError as error:
        expect(path.name in str(error), f"{what}: the error does not name the file ({error})")
        return
    raise AssertionError(f"{what} was read as {found}")


@check_of(FORMAT, whole=True)
def check_extensions(thing: Any, rng: np.random.Generator) -> None:
    """At least one extension, lower case, with the dot."""
    expect(len(thing.extensions) > 0, "no extensions")
    for extension in thing.extensions:
        expect(
            extension == extension.lower() and extension.startswith(".") and len(extension) > 1,
            f"extension {extension!r}, expected lower case with a dot",
        )


@check_of(EXPERIMENT, whole=True)
def check_name_and_summary(thing: Any, rng: np.random.Generator) -> None:
    """A name that can be typed, a summary of one line, a function to call, and words on the data
    if it needs some.
    """
    expect(
        re.fullmatch(r"[a-z0-9][a-z0-9_-]*", thing.name) is not None,
        f"name {thing.name!r}, expected a-z, 0-9, - and _",
    )
    summary = thing.summary
    expect(
        isinstance(summary, str) and summary.strip() and "\n" not in summary,
        f"summary {summary!r}, expected one line",
    )
    expect(callable(thing.function), f"function {thing.function!r} cannot be called")
    expect(
        thing.data is None or (isinstance(thing.data, str) and thing.data.strip()),
        f"data {thing.data!r}, expected None or words",
    )
