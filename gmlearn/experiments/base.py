"""What an experiment is, and where its tables, figures and numbers go."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gmlearn._utils.files import atomic_write
from gmlearn._utils.progress import progress
from gmlearn._utils.validation import check_array, check_choice
from gmlearn._utils.versions import versions


class DataNotFoundError(FileNotFoundError):
    """The experiment needs real data that is not in the given folder."""


@dataclass(frozen=True)
class Experiment:
    """A repeatable experiment: ``function(run)`` computes and reports through `run`.

    Parameters
    ----------
    name : what a user types after ``gmlearn run``.
    summary : one sentence for ``gmlearn run --list``.
    function : called with a `Run`.
    data : for experiments on real data, the folder layout expected under ``--data`` and where such
        data is published; None if the data is generated.
    options : choices of its own, name -> values, the first being the default; a user types
        ``--name value``, the function reads ``run.choices[name]``.
    """

    name: str
    summary: str
    function: Callable[[Run], None]
    data: str | None = None
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    registry_kind: ClassVar[str] = "experiment"

    def run(self, run: Run) -> Run:
        """Carry it out; `run` holds the result."""
        if self.data is not None and run.data is None:
            raise DataNotFoundError(f"{self.name} needs real data: pass --data DIR. {self.data}")
        run.choices = {name: run.choices.get(name, v[0]) for name, v in self.options.items()}
        for name, value in run.choices.items():
            check_choice(name, value, tuple(self.options[name]))
        run.started = time.perf_counter()
        try:
            self.function(run)
        except DataNotFoundError as error:
            raise DataNotFoundError(f"{error}. {self.data}" if self.data else str(error)) from error
        finally:
            run.seconds = time.perf_counter() - run.started
        return run


@dataclass
class Run:
    """One execution of an experiment: its settings going in; tables, figures, values and notes
    coming out.
    """

    name: str = "run"
    quick: bool = False
    seed: int = 0
    data: Path | None = None
    out: Path | None = None
    #: where finished cells are kept while an experiment runs, None for nowhere; with `resume` those
    #: of an earlier run are taken
    cells: Path | None = None
    resume: bool = False
    show_progress: bool | None = None
    choices: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    tables: list[tuple[str, list[str], list[list[Any]]]] = field(default_factory=list)
    figures: list[tuple[str, str, Path | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    #: what the experiment is about, the heading of the report
    title: str = ""
    #: column of a table -> what it means
    meanings: dict[str, str] = field(default_factory=dict)
    #: how to do it oneself, the end of the report
    code: str = ""
    seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter, repr=False)
    #: (title of a table or file name of a figure, seconds from the start until it was there)
    timings: list[tuple[str, float]] = field(default_factory=list)

    def path(self, relative: str) -> Path:
        """A file or folder below the data folder, or a clear error."""
        if self.data is None:
            raise DataNotFoundError(f"{self.name}: no data folder given (--data DIR)")
        path = Path(self.data) / relative
        if not path.exists():
            raise DataNotFoundError(
                f"{self.name}: expected {relative!r} below {str(self.data)!r}, found nothing there"
            )
        return path

    def progress(self, iterable: Any = None, **options: Any) -> Any:
        """A progress bar (see `gmlearn.progress`)."""
        return progress(iterable, show=self.show_progress, **options)

    def cell(self, key: str, compute: Callable[[], Any]) -> Any:
        """``compute()``, a part of the experiment that JSON can hold, such as the scores of one
        split. An experiment made of cells goes on where it was interrupted: ``gmlearn run NAME
        --resume``.
        """
        file = None if self.cells is None else self.cells / f"{key}.json"
        if file is not None and self.resume and file.exists():
            return json.loads(file.read_text())
        found = compute()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file, "w") as stream:
                json.dump(found, stream)
        return found

    def value(self, key: str, value: Any) -> None:
        """A number (or list, or mapping) for ``result.json``."""
        self.values[key] = value

    def table(
        self, title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> list[list[Any]]:
        """A table for ``table.md`` and the report; floats are shown with four significant digits.
        Returns the rows.

        `rows` may be a generator that computes them one by one: after Ctrl-C the report has those
        that were finished.
        """
        width = len(header)
        kept: list[list[Any]] = []
        for row in rows:
            if len(row) != width:
                raise ValueError(f"table {title!r}: a row has {len(row)} cells, the header {width}")
            if not kept:
                self.tables.append((title, [str(h) for h in header], kept))
            kept.append(list(row))
        if not kept:
            self.tables.append((title, [str(h) for h in header], kept))
        self.timings.append((title, time.perf_counter() - self.started))
        return kept

    def figure(self, filename: str, figure: Any, caption: str) -> None:
        """Save a matplotlib figure as a PNG in the output folder and close it."""
        import matplotlib.pyplot as plt

        path = None
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            path = self.out / filename
            with atomic_write(path) as stream:
                figure.savefig(stream, format="png", dpi=130, bbox_inches="tight")
        plt.close(figure)
        self.figures.append((filename, caption, path))
        self.timings.append((filename, time.perf_counter() - self.started))

    def note(self, text: str) -> None:
        """A sentence for the reader of the report."""
        self.notes.append(text)

    def explain(self, column: str, meaning: str) -> None:
        """What a column of the tables means; stands under each table that has it."""
        self.meanings[column] = meaning

    def as_dict(self) -> dict[str, Any]:
        """Everything that goes into ``result.json``."""
        return {
            "experiment": self.name,
            "quick": self.quick,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "settings": {
                "quick": self.quick,
                "seed": self.seed,
                "data": None if self.data is None else str(self.data),
                **self.choices,
            },
            "versions": versions(),
            "timings": [{"ready": what, "seconds": round(at, 3)} for what, at in self.timings],
            "values": _plain(self.values),
            "notes": self.notes,
            "columns": self.meanings,
            "tables": [{"title": t, "header": h, "rows": _plain(r)} for t, h, r in self.tables],
            "figures": [{"file": f, "caption": c} for f, c, _ in self.figures],
        }

    def write(self) -> None:
        """Write ``result.json``, ``table.md`` and ``report.html`` to the output folder."""
        from gmlearn.experiments.report import html_report, markdown_tables

        if self.out is None:
            raise ValueError("out: expected a folder to write to, got None")
        self.out.mkdir(parents=True, exist_ok=True)
        for filename, text in (
            ("result.json", json.dumps(self.as_dict(), indent=1)),
            ("table.md", markdown_tables(self)),
            ("report.html", html_report(self)),
        ):
            with atomic_write(self.out / filename, "w") as stream:
                stream.write(text)


def mean_and_error(values: Any) -> tuple[Any, Any]:
    """The mean over the first axis, and its standard error; 0 for a single value."""
    values = check_array("values", values, allow_inf=True, allow_nan=True)
    if not values.ndim or not len(values):
        raise ValueError(f"values: expected some values, got shape {values.shape}")
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(max(len(values) - 1, 1))


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays as plain ones; NaN and infinities as None, so that the JSON is
    valid.
    """
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
