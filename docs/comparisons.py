"""What the benchmarks compare: which number of which measurement is set against whom.

``build_performance.py`` makes the table and the chart of the performance page from this list and
from the numbers in docs/measurements/NAME.json.
"""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import NamedTuple

MEASUREMENTS = Path(__file__).parent / "measurements"


class Comparison(NamedTuple):
    """One row of the table."""

    benchmark: str
    #: what the line of the measurement begins with, numbers written as #
    line: str
    #: which of its numbers
    number: int
    what: str
    against: str
    #: the measurement has our time over theirs instead of theirs over ours
    inverse: bool = False

    def ratio(self) -> float:
        """Their time over ours: above 1 where gmlearn is faster."""
        rows = json.loads((MEASUREMENTS / f"{self.benchmark}.json").read_text("utf-8"))["rows"]
        found = [row["numbers"] for row in rows if row["what"].startswith(self.line)]
        if not found:
            raise LookupError(f"docs/measurements/{self.benchmark}.json has no line {self.line!r}")
        value = found[0][self.number]
        return 1 / value if self.inverse else value

    def command(self) -> str:
        """How to repeat it."""
        content = json.loads((MEASUREMENTS / f"{self.benchmark}.json").read_text("utf-8"))
        return content["command"]


GRID = "binary grid 200 x 200, optimum"
STEREO = (
    "Potts grid 288 x 384 x 16 to a gap of 1e-4 (gco stops at a higher energy, without a bound)"
)
EXEMPLARS = "exemplars"
TABLES = "explicit tables, compiled, on the same cliques (5 variables, 4 labels)"
MATCHES = "1000 soft matches of point sets"
COMPARISONS = (
    Comparison("grids", "binary #x200", 3, GRID, "PyMaxflow", inverse=True),
    Comparison(
        "grids",
        "P1 trws",
        2,
        "Potts grid to a proved gap of 1e-5",
        "gco alpha expansion (no bound)",
        inverse=True,
    ),
    Comparison("vision", "gmlearn auto", 2, STEREO, "gco alpha expansion", inverse=True),
    Comparison(
        "grids",
        "TRW-S pass",
        3,
        "one TRW-S pass, 384 x 288 x 16",
        "copying the bytes that it touches",
        inverse=True,
    ),
    Comparison("highorder", "pn_potts auto", 0, "slave of Pn-Potts cliques", TABLES),
    Comparison("highorder", "robust_pn auto", 0, "slave of robust Pn cliques", TABLES),
    Comparison("highorder", "pattern auto", 0, "slave of pattern cliques", TABLES),
    Comparison("highorder", "cardinality auto", 0, "slave of cardinality cliques", TABLES),
    Comparison("highorder", "label_cost auto", 0, "slave of label costs", TABLES),
    Comparison("highorder", "implication auto", 0, "slave of implications", TABLES),
    Comparison(
        "clustering",
        "time of affinity propagation",
        0,
        f"{EXEMPLARS}, 80 to 150 points, lower energy",
        "affinity propagation (scikit-learn)",
    ),
    Comparison(
        "clustering",
        "time of affinity propagation",
        1,
        f"{EXEMPLARS}, 80 to 150 points, .02 % above the optimum",
        "an exact solver",
    ),
    Comparison(
        "clustering",
        "N = #, Gaussian",
        4,
        f"{EXEMPLARS}, 2,000 points, lower energy",
        "affinity propagation (scikit-learn)",
    ),
    Comparison(
        "groupfs", "assignment", 4, "assignment of 600 points to 20 bounded clusters", "HiGHS LP"
    ),
    Comparison(
        "mlca",
        "n = #,#, d = #, float32",
        3,
        "closed-form metric of 500,000 rows",
        "the product X.T @ X alone",
        inverse=True,
    ),
    Comparison("pointsets", "POT's defaults", 4, f"{MATCHES}, tolerance 1e-9", "POT, in a loop"),
    Comparison("pointsets", "tolerance", 6, f"{MATCHES}, tolerance 1e-2", "POT, in a loop"),
)


def table() -> str:
    """All comparisons: what, against whom, ratio, how to repeat."""
    lines = ["| what | against | times as fast | repeat |", "|---|---|---:|---|"]
    for row in COMPARISONS:
        shown = _shown(row.ratio())
        lines.append(f"| {row.what} | {row.against} | {shown} | `{row.command()}` |")
    return "\n".join(lines) + "\n"


def _shown(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


LABELS, BARS, HEIGHT = 370, 330, 22


def chart() -> str:
    """The ratios as bars on a logarithmic scale, as SVG; the line in the middle is 1."""
    ratios = [row.ratio() for row in COMPARISONS]
    most = max(abs(math.log10(r)) for r in ratios)
    middle = LABELS + BARS * 0.25
    unit = BARS * 0.7 / most
    width = LABELS + BARS + 40
    height = HEIGHT * len(ratios) + 30
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
        "font-family='sans-serif' font-size='12' role='img' "
        "aria-label='How many times as fast gmlearn is, one bar for each comparison'>"
    ]
    for k, (row, ratio) in enumerate(zip(COMPARISONS, ratios)):
        y = HEIGHT * k + 4
        length = unit * math.log10(ratio)
        x = middle + min(length, 0)
        # Okabe and Ito's green and vermilion, told apart by everyone
        colour = "#009e73" if ratio >= 1 else "#d55e00"
        name = row.what.partition(" (")[0]
        parts.append(
            f"<text x='{LABELS - 6}' y='{y + 13}' text-anchor='end' fill='#555'>"
            f"{html.escape(_short(name))}</text>"
            f"<rect x='{x:.1f}' y='{y}' width='{abs(length):.1f}' height='{HEIGHT - 6}' "
            f"fill='{colour}'/>"
            f"<text x='{max(middle, middle + length) + 5:.1f}' y='{y + 13}' fill='#555'>"
            f"{_shown(ratio)}</text>"
        )
    parts.append(
        f"<line x1='{middle}' x2='{middle}' y1='0' y2='{height - 22}' stroke='#888'/>"
        f"<text x='{middle}' y='{height - 6}' text-anchor='middle' fill='#555'>"
        "slower | faster</text></svg>"
    )
    return "".join(parts)


def _short(text: str, most: int = 64) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"
