"""Global cost functions of WCSP and CFN files: energies, and toulbar2's optima."""

from __future__ import annotations

import itertools
import lzma

import numpy as np
import pytest

import gmlearn as gm

KEYWORDS = (
    "salldiff var 3",
    "salldiff dec 2",
    "salldiffdp var 3",
    "walldiff lin 4",
    "walldiff quad 2",
    "walldiff hard 5",
    "sgcc dec 2 2 0 1 2 1 0 1",
    "sgccdp var 2 2 0 1 1 2 2 3",
    "sgcc wdec 1 2 0 1 2 3 2 1 0 1 1 4",
    "wgcc lin 3 2 0 1 2 1 0 1",
    "wgcc quad 2 1 1 2 2",
    "samong var 3 1 2 2 0 2",
    "samongdp var 2 2 3 1 1",
    "wamong lin 3 2 0 1 1 1",
    "wamong quad 2 1 2 0 1",
    "wamong hard 9 1 0 1 2",
    "wsum lin 2 == 3",
    "wsum quad 1 <= 2",
    "wsum hard 7 > 4",
    "wsum lin 3 < 3",
    "wsum lin 3 >= 5",
    "wsum hard 6 != 4",
    "knapsack 2 1 2 -1 1",
    "knapsackp 3 1 2 2 2 0 1 1 3 0 2 1 1 2 2",
)


def energy(keyword, x):
    """The cost of a labelling, straight from the description of the keyword."""
    x = np.array(x)
    name, *words = keyword.split()
    if name == "knapsack":
        to, *weights = map(int, words)
        return 0 if np.dot(weights, x == 1) >= to else np.inf
    if name == "knapsackp":
        numbers = list(map(int, words))
        to, rest, total = numbers[0], numbers[1:], 0
        for label in x:
            n = rest[0]
            total += dict(zip(rest[1 : 1 + 2 * n : 2], rest[2 : 2 + 2 * n : 2])).get(label, 0)
            rest = rest[1 + 2 * n :]
        return 0 if total >= to else np.inf
    metric, cost = words[0], int(words[1])
    count = np.bincount(x, minlength=3)

    def measured(gap):
        return cost * {"quad": gap**2, "hard": min(gap, 1)}.get(metric, gap)

    if "alldiff" in name:
        if metric == "dec":
            return cost * sum(n * (n - 1) // 2 for n in count)
        return sum(measured(max(n - 1, 0)) for n in count)
    numbers = [int(word) for word in words[2:] if word.lstrip("-").isdigit()]
    if "gcc" in name:
        total = 0
        width = 5 if metric == "wdec" else 3
        for row in np.array(numbers[1:]).reshape(-1, width):
            short, over = max(row[1] - count[row[0]], 0), max(count[row[0]] - row[2], 0)
            total += short * row[3] + over * row[4] if width == 5 else measured(short + over)
        return total
    if "among" in name:
        if name == "wamong":
            values, (low, high) = numbers[1:-2], numbers[-2:]
        else:
            (low, high), values = numbers[:2], numbers[3:]
        n = np.isin(x, values).sum()
        return measured(max(low - n, n - high, 0))
    total, to = x.sum(), numbers[-1]
    gap = {
        "==": abs(total - to),
        "!=": int(total == to),
        "<": max(total - to + 1, 0),
        "<=": max(total - to, 0),
        ">": max(to - total + 1, 0),
        ">=": max(to - total, 0),
    }[words[2]]
    return measured(gap)


def network(keyword, states=(3, 2, 3, 3), unary=None, bound=1000):
    unary = np.zeros((4, 3), int) if unary is None else unary
    lines = [f"test 4 3 5 {bound}", " ".join(map(str, states))]
    for v, n in enumerate(states):
        lines += [f"1 {v} 0 {n}", *(f"{l} {unary[v, l]}" for l in range(n))]
    return "\n".join([*lines, f"4 0 1 2 3 -1 {keyword}", ""])


def labellings(states=(3, 2, 3, 3)):
    return itertools.product(*map(range, states))


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_energies(put, keyword):
    crf = gm.read(put("m.wcsp.xz", lzma.compress(network(keyword).encode())))
    for x in labellings():
        assert crf.energy(x) == energy(keyword, x)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_optimum_is_that_of_toulbar2(put, keyword):
    """Read by toulbar2 itself from the same file, with random costs of the labels."""
    tb2 = pytest.importorskip("pytoulbar2")
    rng = np.random.default_rng(len(keyword))
    for k in range(3):
        path = put(f"m{k}.wcsp", network(keyword, unary=rng.integers(0, 6, (4, 3))))
        ours = gm.solve(gm.read(path))
        other = tb2.CFN()
        other.Option.cfn = False  # the library remembers that an earlier file was one
        try:
            other.Read(str(path))
            found = other.Solve()
        except tb2.tb2.Contradiction:
            found = None
        if found is None:
            assert ours.energy == np.inf
        else:
            assert ours.energy == pytest.approx(found[1])


def test_costs_at_the_upper_bound_are_hard(put):
    crf = gm.read(put("m.wcsp", network("walldiff lin 3", bound=3)))
    assert crf.energy([0, 0, 1, 2]) == np.inf
    assert crf.energy([0, 1, 2, 2]) == np.inf


def test_clique_and_arithmetic(put):
    clique = gm.read(put("m.wcsp", network("clique 1 1 1 1 1 1 1 2 1 2")))
    for x in labellings():
        taken = sum([x[0] == 1, x[1] == 1, x[2] == 1, x[3] in (1, 2)])
        assert clique.energy(x) == (0 if taken <= 1 else np.inf)
    for keyword, gap in {
        ">= 1 2": lambda x, y: y + 1 - x,
        "> 0 1": lambda x, y: y + 1 - x,
        "<= 0 2": lambda x, y: x - y,
        "< 1 1": lambda x, y: x - y,
        "= 1 1": lambda x, y: abs(y + 1 - x),
    }.items():
        crf = gm.read(put("m.wcsp", f"t 2 3 1 50\n3 3\n2 0 1 -1 {keyword}\n"))
        for x, y in itertools.product(range(3), repeat=2):
            cost = max(gap(x, y), 0)
            assert crf.energy([x, y]) == (cost if cost <= int(keyword.split()[2]) else np.inf)
    crf = gm.read(put("m.wcsp", "t 2 3 1 50\n3 3\n2 0 1 -1 disj 2 1 7\n"))
    for x, y in itertools.product(range(3), repeat=2):
        assert crf.energy([x, y]) == (0 if x >= y + 1 or y >= x + 2 else 7)


CFN = """{ problem: {name: t, mustbe: <90.0}
variables: {v1: [a b c] v2: [a b] v3: [a b c] v4: 3}
functions: {
  f : { scope: [v1 v2 v3 v4] type: %s params: {%s} }
}}"""


@pytest.mark.parametrize(
    ("kind", "parameters", "keyword"),
    [
        ("salldiff", "metric: var cost: 3", "salldiff var 3"),
        ("samong", "metric: var cost: 3 min: 1 max: 2 values: [a c]", "samong var 3 1 2 2 0 2"),
        ("wamong", "metric: lin cost: 3 values: [0 1] min: 1 max: 1", "wamong lin 3 2 0 1 1 1"),
        ("wsum", 'metric: quad cost: 1 comparator: "<=" to: 2', "wsum quad 1 <= 2"),
        ("wgcc", "metric: lin cost: 3 bounds: [[a 1 2][1 0 1]]", "wgcc lin 3 2 0 1 2 1 0 1"),
        (
            "sgcc",
            "metric: wdec cost: 1 bounds: [[0 1 2 3 2] [1 0 1 1 4]]",
            "sgcc wdec 1 2 0 1 2 3 2 1 0 1 1 4",
        ),
        ("knapsack", "capacity: 2 weights: [1 2 -1 1]", "knapsack 2 1 2 -1 1"),
    ],
)
def test_cfn_files_have_them_too(put, kind, parameters, keyword):
    crf = gm.read(put("m.cfn", CFN % (kind, parameters)))
    for x in labellings():
        assert crf.energy(x) == energy(keyword, x)


def test_cfn_clique(put):
    crf = gm.read(put("m.cfn", CFN % ("clique", "rhs: 1 values: [[1] [1] [1] [1 2]]")))
    for x in labellings():
        taken = sum([x[0] == 1, x[1] == 1, x[2] == 1, x[3] in (1, 2)])
        assert crf.energy(x) == (0 if taken <= 1 else np.inf)


@pytest.mark.parametrize(
    ("keyword", "match"),
    [
        ("sregular var 1 2", "keyword 'sregular'"),
        ("sgcc var 1 1 0 1 2", "measured by dec or wdec, got 'var'"),
        ("salldiff var -3", "a cost of salldiff of at least 0"),
        ("salldiff var", "got the end of the file"),
        ("samong var 3 1 2 99999999999 0", "in 0..1099511627776|room for"),
        ("wsum lin 2 ~ 3", "one of =="),
        ("knapsack 99999999999999 1 1 1 1", "in -1099511627776"),
        ("knapsack 1 99999999 1 1 1", "at most 65536 different totals"),
        ("clique 1 1 99999999999 1 1 1 1 1 1 5", "the end of the file after"),
    ],
)
def test_what_is_refused(put, keyword, match):
    with pytest.raises(gm.FormatError, match=match):
        gm.read(put("bad.wcsp", network(keyword)))


def test_maximisation_with_global_functions_is_refused(put):
    text = (CFN % ("salldiff", "metric: var cost: 3")).replace("<90.0", ">90.0")
    with pytest.raises(gm.FormatError, match="where costs are maximised"):
        gm.read(put("bad.cfn", text))
