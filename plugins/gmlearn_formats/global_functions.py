"""Global cost functions of toulbar2, as sums of functions of counts.

A keyword and its parameters become terms ``f(number of members whose label is in a set)`` or
``f(sum of the labels' values)``; `GlobalTerms` collects them and adds one block of each kind.
Keywords and their meaning follow toulbar2's description of its formats; those whose cost is no
such sum are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gmlearn as gm

#: totals of one function; beyond this it is refused before memory is asked for
MAX_TOTAL = 2**16
#: whole numbers in parameters; sums of them cannot overflow
MAX_NUMBER = 2**40

Refuse = Callable[[str, str], object]


class Bounds(NamedTuple):
    """How often a value may be taken; weights of what is missing and of what is too much."""

    value: int
    low: int
    high: int
    shortage: float = 1.0
    excess: float = 1.0


class Parameters(NamedTuple):
    """The parameters of a global function; each keyword uses some of them.

    metric : how a violation is measured.   cost : of one violation.   low, high : of a count.
    values : counted labels.   bounds : of each label.   comparator, to : of a sum.
    pairs : (label, value) of each member, for knapsacks and cliques; other labels have 0.
    """

    metric: str = "hard"
    cost: float = np.inf
    low: int = 0
    high: int = 0
    values: tuple[int, ...] = ()
    bounds: tuple[Bounds, ...] = ()
    comparator: str = "=="
    to: int = 0
    pairs: tuple[tuple[tuple[int, int], ...], ...] = ()


#: how far a sum s is from fulfilling ``s comparator k``
DISTANCES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "==": lambda s, k: np.abs(s - k),
    "!=": lambda s, k: (s == k).astype(int),
    "<": lambda s, k: np.maximum(s - k + 1, 0),
    "<=": lambda s, k: np.maximum(s - k, 0),
    ">": lambda s, k: np.maximum(k - s + 1, 0),
    ">=": lambda s, k: np.maximum(k - s, 0),
}

#: from how far a count is out of bounds to how often `cost` is paid
MEASURES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "var": lambda gap: gap,
    "lin": lambda gap: gap,
    "dec": lambda gap: gap,
    "quad": lambda gap: gap**2,
    "hard": lambda gap: np.minimum(gap, 1),
}


class GlobalTerms:
    """Collects the terms of a file's global functions.

    Parameters
    ----------
    builder : of the model.   refuse : called as ``refuse(expected, got)`` for what is not read.
    bound : costs that reach it are forbidden.
    """

    def __init__(self, builder: gm.ModelBuilder, refuse: Refuse, bound: float):
        self.builder = builder
        self.states = builder.crf.n_states
        self.refuse = refuse
        self.bound = bound
        self.counts: list[tuple[np.ndarray, int, np.ndarray]] = []
        self.sums: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def read(self, tokens: gm.Tokens, keyword: str, scope: np.ndarray) -> None:
        """Read the parameters of one function, in the order of WCSP files, and add it."""
        self.check(keyword, len(scope))
        if keyword in ARITHMETIC:
            numbers = tokens.numbers(ARITHMETIC[keyword], f"parameters of {keyword}").tolist()
            shape = self.builder.shape(scope)
            self.builder.default_table(shape, 0.0)  # counts what no file lists
            self.builder.add(scope, arithmetic(keyword, numbers, shape, self.bound))
        else:
            self.add(keyword, scope, read_parameters(tokens, keyword, len(scope)))

    def check(self, keyword: str, arity: int) -> None:
        """Refuse a keyword that is not known, or not for so many variables."""
        if keyword not in METRICS and not (keyword in ARITHMETIC and arity == 2):
            known = ", ".join([*ARITHMETIC, *METRICS])
            self.refuse(
                f"a table, or one of {known}",
                f"the keyword {keyword[:40]!r} with {arity} variables",
            )

    def add(self, keyword: str, scope: np.ndarray, given: Parameters) -> None:
        """Add one global function."""
        if given.metric not in METRICS[keyword]:
            allowed = " or ".join(METRICS[keyword])
            self.refuse(f"the cost of {keyword} measured by {allowed}", repr(given.metric[:40]))
        if len(scope) > 1 and len(set(scope.tolist())) != len(scope):
            self.refuse("a scope of different variables", f"the scope {scope.tolist()[:8]}")
        if len(scope):
            _TERMS[keyword](self, scope, given)

    def finish(self, crf: gm.CRF) -> None:
        """Add what was collected to `crf`."""
        if self.counts:
            cliques, labels, costs = zip(*self.counts)
            crf.add("cardinality", cliques=list(cliques), label=list(labels), costs=list(costs))
        if self.sums:
            cliques, tables, costs = zip(*self.sums)
            width = int(self.states.max())
            rows = [np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in tables]
            crf.add(
                "value_sum", cliques=list(cliques), values=np.concatenate(rows), costs=list(costs)
            )

    # ------------------------------------------------------------------ kinds of terms

    def count(self, scope: np.ndarray, value: int, cost: Callable[[np.ndarray], Any]) -> None:
        """A function of how many members take one label."""
        n = np.arange(len(scope) + 1)
        if value < self.states[scope].max():
            self.counts.append((scope, value, self._hard(cost(n))))
        else:  # no member has this label
            self.count(scope, 0, lambda n: np.full(len(n), float(cost(np.zeros(1, int))[0])))

    def total(
        self, scope: np.ndarray, table: np.ndarray, cost: Callable[[np.ndarray], Any]
    ) -> None:
        """A function of the sum of values, `table` (k, L), which may be negative."""
        own = np.arange(table.shape[1]) < self.states[scope][:, None]
        lowest = np.where(own, table, table.max(initial=0)).min(axis=1)
        shifted = np.where(own, table - lowest[:, None], 0)
        most = int(shifted.max(axis=1).sum())
        if most > MAX_TOTAL:
            self.refuse(f"sums with at most {MAX_TOTAL} different totals", str(most))
        costs = self._hard(cost(np.arange(most + 1) + int(lowest.sum())))
        self.sums.append((scope, shifted, costs))

    def _hard(self, costs: np.ndarray) -> np.ndarray:
        costs = np.asarray(costs, float)
        return np.where(costs >= self.bound, np.inf, costs)

    # ------------------------------------------------------------------ keywords

    def _all_different(self, scope: np.ndarray, given: Parameters) -> None:
        """Every label at most once; "dec" counts pairs of members with the same label."""
        for value in range(int(self.states[scope].max())):
            if given.metric in ("dec", "decbi"):
                self.count(scope, value, lambda n: _times(given.cost, n * (n - 1) // 2))
            else:
                self._between(scope, Bounds(value, 0, 1), given)

    def _cardinalities(self, scope: np.ndarray, given: Parameters) -> None:
        for bounds in given.bounds:
            self._between(scope, bounds, given)

    def _between(self, scope: np.ndarray, bounds: Bounds, given: Parameters) -> None:
        """The number of members that take one label lies between two bounds."""
        measure = MEASURES["lin" if given.metric == "wdec" else given.metric]
        cost = 1.0 if given.metric == "wdec" else given.cost

        def paid(n: np.ndarray) -> np.ndarray:
            short = bounds.shortage * measure(np.maximum(bounds.low - n, 0))
            return _times(cost, short + bounds.excess * measure(np.maximum(n - bounds.high, 0)))

        self.count(scope, bounds.value, paid)

    def _among(self, scope: np.ndarray, given: Parameters) -> None:
        """The number of members whose label is in a set lies between two bounds."""
        counted = np.isin(np.arange(int(self.states[scope].max())), given.values)
        measure = MEASURES[given.metric]

        def paid(n: np.ndarray) -> np.ndarray:
            gap = np.maximum(given.low - n, 0) + np.maximum(n - given.high, 0)
            return _times(given.cost, measure(gap))

        self.total(scope, np.tile(counted.astype(int), (len(scope), 1)), paid)

    def _sum(self, scope: np.ndarray, given: Parameters) -> None:
        if given.comparator not in DISTANCES:
            self.refuse(f"one of {', '.join(DISTANCES)}", repr(given.comparator[:40]))
        labels = np.arange(int(self.states[scope].max()))
        distance = DISTANCES[given.comparator]
        measure = MEASURES[given.metric]
        self.total(
            scope,
            np.tile(labels, (len(scope), 1)),
            lambda s: _times(given.cost, measure(distance(s, given.to))),
        )

    def _linear(self, scope: np.ndarray, given: Parameters) -> None:
        """A knapsack: the sum of values is at least `to`. A clique: at most."""
        table = np.zeros((len(scope), int(self.states[scope].max())), np.int64)
        for member, pairs in enumerate(given.pairs):
            for label, value in pairs:
                if label < table.shape[1]:
                    table[member, label] = value
        distance = DISTANCES[given.comparator]
        self.total(scope, table, lambda s: np.where(distance(s, given.to) > 0, np.inf, 0.0))


def _times(cost: float, number: np.ndarray) -> np.ndarray:
    """cost * number with 0 * inf = 0."""
    return np.multiply(cost, number, out=np.zeros(len(number)), where=number != 0)


_TERMS: dict[str, Callable[[GlobalTerms, np.ndarray, Parameters], None]] = {
    **dict.fromkeys(
        ("salldiff", "salldiffdp", "salldiffkp", "walldiff", "walldifferent"),
        GlobalTerms._all_different,
    ),
    **dict.fromkeys(("sgcc", "sgccdp", "sgcckp", "wgcc"), GlobalTerms._cardinalities),
    **dict.fromkeys(("samong", "samongdp", "wamong"), GlobalTerms._among),
    **dict.fromkeys(("wsum", "ssum"), GlobalTerms._sum),
    **dict.fromkeys(("clique", "knapsack", "knapsackp"), GlobalTerms._linear),
}

_NETWORK = ("hard", "lin", "quad")
#: keyword -> how its violations can be measured
METRICS: dict[str, tuple[str, ...]] = {
    "salldiff": ("var", "dec", "decbi"),
    "salldiffdp": ("var",),
    "sgcc": ("dec", "wdec"),
    "sgccdp": ("var",),
    "samong": ("var",),
    "samongdp": ("var",),
    **dict.fromkeys(("walldiff", "walldifferent", "wgcc", "wamong", "wsum", "ssum"), _NETWORK),
    **dict.fromkeys(("salldiffkp", "sgcckp", "clique", "knapsack", "knapsackp"), ("hard",)),
}


def read_parameters(tokens: gm.Tokens, keyword: str, arity: int) -> Parameters:
    """The parameters of a global function, in the order in which WCSP files have them."""
    what = f"a parameter of {keyword}"

    def whole(low: float = -MAX_NUMBER) -> int:
        return tokens.integer(what, low, MAX_NUMBER)

    def listed() -> tuple[int, ...]:
        return tuple(tokens.integers(whole(0), f"values of {keyword}", low=0).tolist())

    if keyword in ("clique", "knapsack", "knapsackp"):
        to = whole()
        if keyword == "clique":
            pairs = tuple(tuple((v, 1) for v in listed()) for _ in range(arity))
            return Parameters(comparator="<=", to=to, pairs=pairs)
        if keyword == "knapsack":
            pairs = tuple(((1, whole()),) for _ in range(arity))
        else:
            pairs = tuple(
                tuple((whole(0), whole()) for _ in range(_room(tokens, whole(0))))
                for _ in range(arity)
            )
        return Parameters(comparator=">=", to=to, pairs=pairs)
    metric = tokens.word(f"how {keyword} is measured")
    given = Parameters(metric, float(tokens.numbers(1, f"cost of {keyword}")[0]))
    if given.cost < 0:
        tokens.fail(f"a cost of {keyword} of at least 0")
    if keyword in ("samong", "samongdp"):
        low, high = whole(), whole()
        return given._replace(low=low, high=high, values=listed())
    if keyword == "wamong":
        values = listed()
        return given._replace(values=values, low=whole(), high=whole())
    if keyword in ("wsum", "ssum"):
        return given._replace(comparator=tokens.word(f"the comparator of {keyword}"), to=whole())
    if "gcc" in keyword:
        weights = 2 if metric == "wdec" else 0
        rows = []
        for _ in range(_room(tokens, whole(0))):
            bounds = whole(0), whole(), whole()
            rows.append(Bounds(*bounds, *tokens.numbers(weights, f"weights of {keyword}").tolist()))
        return given._replace(bounds=tuple(rows))
    return given


def _room(tokens: gm.Tokens, n: int) -> int:
    """`n`, if the file has room for so many items."""
    if n > tokens.left():
        tokens.fail("a number of items that the file has room for", str(n))
    return n


def arithmetic(
    keyword: str, numbers: list[float], shape: tuple[int, ...], bound: float
) -> np.ndarray:
    """The flat table of a binary arithmetic function of labels x and y.

    ``>=``, ``>``, ``<=``, ``<``, ``=`` take (constant, delta): a violation of more than delta is
    forbidden, a smaller one costs its size. ``disj`` takes (cx, cy, penalty).
    """
    x = np.arange(shape[0])[:, None]
    y = np.arange(shape[1])[None, :]
    if keyword == "disj":
        apart = (x >= y + numbers[1]) | (y >= x + numbers[0])
        costs = np.where(apart, 0.0, numbers[2])
    else:
        gap = {
            ">=": y + numbers[0] - x,
            ">": y + numbers[0] + 1 - x,
            "<=": x - numbers[0] - y,
            "<": x - numbers[0] + 1 - y,
            "=": np.abs(y + numbers[0] - x),
        }[keyword]
        costs = np.where(gap <= numbers[1], np.maximum(gap, 0.0), bound)
    return np.where(costs >= bound, np.inf, costs).ravel()


#: binary arithmetic functions, and how many numbers they take
ARITHMETIC = {">=": 2, ">": 2, "<=": 2, "<": 2, "=": 2, "disj": 3}
