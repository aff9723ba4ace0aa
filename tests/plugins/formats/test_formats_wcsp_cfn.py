"""WCSP and CFN files: what they mean and how they fail."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import gmlearn as gm

WCSP = """toy 3 3 5 100
2 3 2
1 1 5 1
2 7
-2 0 1 0 2
0 1 4
1 2 100
0 3 0
2 2 1 0 -1
3 0 1 2 1 1
1 1 1 200
"""

CFN = """{
 "problem": {"name": "toy", "mustbe": "<100.0"},
 "variables": {"x": ["a", "b"], "y": ["r", "g", "b"], "z": 2},
 "functions": {
  "fy": {"scope": ["y"], "defaultcost": 5, "costs": ["b", 7]},
  "shared": {"scope": ["z", "y"], "costs": "fxy"},
  "fxy": {"scope": ["x", "y"], "defaultcost": 0, "costs": ["a", "g", 4, 1, 2, 100.0]},
  "constant": {"scope": [], "costs": ["3"]},
  "triple": {"scope": ["x", 1, "z"], "costs": [1,1, 1,1, 1,1, 1,1, 1,200, 1,1]}
 }
}
"""

LOOSE = """# the same without the ceremony
{problem {toy <100.0}
variables [x [a b]
 y [r g b] 2]
functions [
# no names here, except one that is referred to
 [scope [y] defaultcost 5 costs [b 7]]
 [[2 y] costs shared]
 shared {scope: [x y] defaultcost: 0 costs: [a g 4 1 2 100.0]}
 [[] [3]]
 {scope [0 1 2] [1 1 1 1 1 1 1 1 1 200 1 1]}
]}
"""


def toy_energy(x, y, z):
    pair = {(0, 1): 4, (1, 2): np.inf}
    return (
        [5, 5, 7][y]
        + pair.get((x, y), 0)
        + pair.get((z, y), 0)
        + 3
        + (np.inf if (x, y, z) == (1, 1, 1) else 1)
    )


@pytest.mark.parametrize(
    ("name", "text"), [("toy.wcsp", WCSP), ("toy.cfn", CFN), ("loose.cfn", LOOSE)]
)
def test_meaning(put, name, text):
    crf = gm.read(put(name, text))
    assert crf.n_states.tolist() == [2, 3, 2]
    for x in itertools.product(range(2), range(3), range(2)):
        assert crf.energy(x) == toy_energy(*x)


def test_shared_tables_are_stored_once(put):
    for path in (put("toy.wcsp", WCSP), put("toy.cfn", CFN)):
        pairs = next(block for block in gm.read(path).blocks if block.arity == 2)
        assert len(pairs) == 2
        assert pairs.values.size == 6


@pytest.mark.parametrize(
    ("old", "new", "line", "match"),
    [
        ("5 100\n", "9999999 100\n", 2, "room for"),
        ("2 3 2\n", "2 0 2\n", 2, "not 0, got '0'"),
        ("1 1 5 1\n", "1 1 -1 sregular var 1\n", 3, "'sregular'"),
        ("1 1 5 1\n", "4 1 5 1\n", 3, r"the arity of cost function 0 in -3\.\.3, got '4'"),
        ("1 1 5 1\n", "1 3 5 1\n", 3, "'3'"),
        ("1 1 5 1\n", "1 1 5 99999999\n", 4, "room for at most"),
        ("2 7\n", "3 7\n", 4, r"a label in 0\.\.2 in cost function 0, got '3'"),
        ("2 7\n", "2 7.5\n", 4, "'7.5'"),
        ("2 7\n", "2 -7\n", 4, "'-7'"),
        (
            "1 2 100\n",
            "0 1 5\n",
            6,
            r"one cost for each tuple of cost function 1, got two for \[0, 1\]",
        ),
        ("0 -1\n", "0 -2\n", 9, "earlier reusable"),
        ("2 2 1 0 -1", "2 1 2 0 -1", 9, "earlier reusable"),
        ("1 1 1 200", "1 1 1 200 5", 11, "the end of the file after the last"),
        ("1 1 1 200", "1 1 1", 11, "the end of the file|room for"),
    ],
)
def test_wcsp_errors(put, old, new, line, match):
    assert WCSP.count(old) == 1
    with pytest.raises(gm.FormatError, match=match) as caught:
        gm.read(put("bad.wcsp", WCSP.replace(old, new)))
    assert caught.value.line == line


def test_wcsp_large_costs(put):
    crf = gm.read(
        put("big.wcsp", "big 1 2 1 9223372036854775807\n2\n1 0 0 1\n1 9223372036854775807\n")
    )
    assert crf.unary.tolist() == [0, np.inf]


def test_default_tables_are_bounded(put):
    huge = "huge 6 100 1 10\n" + "100 " * 6 + "\n6 0 1 2 3 4 5 0 0\n"
    with pytest.raises(gm.FormatError, match="table entries with a default cost, got 1e\\+12"):
        gm.read(put("huge.wcsp", huge))
    many = "{problem {p <10} variables [%s] functions [[scope [%s] defaultcost 0 costs []]]}"
    with pytest.raises(gm.FormatError, match="scopes of at most 63 variables, got 70"):
        gm.read(put("many.cfn", many % ("2 " * 70, " ".join(map(str, range(70))))))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('"<100.0"', '"100.0"', 'line 2: expected one "mustbe"'),
        ('"<100.0"', '"<hundred"', 'line 2: expected one "mustbe"'),
        ('"variables"', '"variable"', "line 3: expected \"variables\", got 'variable'"),
        ('["a", "b"]', '["a", "a"]', "line 3: expected different values"),
        ('["a", "b"]', "[]", "line 3: expected a domain"),
        ('"z": 2', '"x": 2', "different names"),
        ('"z": 2', '"z": two', "expected a domain.*'two'"),
        ('"z": 2', '"z": 99999999999', "states over all variables"),
        (
            '["y"], "defaultcost"',
            '["q"], "defaultcost"',
            "line 5: expected variables in the scope of function 'fy'.*'q'",
        ),
        ('"defaultcost": 5', '"defaultcost": five', "line 5: expected the default cost.*'five'"),
        ('["b", 7]', '["b"]', "line 5: expected 1 labels and a cost in each tuple"),
        ('["b", 7]', '["q", 7]', r"line 5: expected labels of variable 1 in function 'fy'.*'q'"),
        ('["b", 7]', '["b", 7, 2, 8]', "line 5: expected one cost for each tuple"),
        (
            '["b", 7]',
            '["b", seven]',
            "line 5: expected costs of function 'fy': numbers, got 'seven'",
        ),
        ('"fxy"}', '"gone"}', "line 6: expected costs, or another function.*'gone'"),
        ('"fxy"}', '"shared"}', "line 6: expected costs, or another function.*'shared'"),
        ('"fxy"}', '"fy"}', "line 6: expected costs, or another function.*'fy'"),
        (
            '["z", "y"], "costs"',
            '["z", "y"], "type"',
            "line 6: expected a table.*the keyword 'fxy'",
        ),
        ('"constant"', '"fy"', "different names of functions"),
        ('["3"]', '["3", 4]', "line 8: expected the end of the 1 costs"),
        ('["3"]', "[]", "line 8: expected 1 costs"),
        ('["3"]', '["3]', "line 8: expected paired quotes"),
        ("1,200, 1,1]", "1,200, 1]", "line 9: .*12"),
        ("1,200, 1,1]}", "1,200, 1,1]]", "line 9: expected }, the end of function 'triple'"),
        ('"x", 1, "z"', '"x", 1, "y"', "a scope of different variables"),
    ],
)
def test_cfn_errors(put, old, new, match):
    assert CFN.count(old) == 1
    with pytest.raises(gm.FormatError, match=match):
        gm.read(put("bad.cfn", CFN.replace(old, new)))


def test_cfn_maximisation_and_bounds(put):
    text = (
        '{"problem": {"name": "p", "mustbe": "%s"}, "variables": {"x": 3}, '
        '"functions": {"f": {"scope": ["x"], "costs": [-5, 0, 5]}}}'
    )
    assert gm.read(put("a.cfn", text % "<5")).unary.tolist() == [-5, 0, np.inf]
    assert gm.read(put("b.cfn", text % ">-5")).unary.tolist() == [np.inf, 0, -5]
    assert gm.read(put("c.cfn", text % "<-3.0")).unary.tolist() == [-5, np.inf, np.inf]


def test_cfn_bounds_concern_totals(put):
    """A cost that reaches the bound is allowed where others make up for it."""
    text = (
        '{"problem": {"name": "p", "mustbe": "<%s"}, "variables": {"x": 2, "y": 2}, "functions": '
        '{"f": {"scope": ["x"], "costs": [5, 7]}, "g": {"scope": ["y"], "costs": [-3, 1]}}}'
    )
    crf = gm.read(put("a.cfn", text % "5"))
    assert crf.unary.tolist() == [5, 7, -3, np.inf]
    assert crf.energy([0, 0]) == 2
    assert gm.read(put("b.cfn", text % "3")).unary.tolist() == [5, np.inf, -3, np.inf]
    assert np.isinf(gm.read(put("c.cfn", text % "2")).unary).all()


def test_cfn_bounds_agree_with_toulbar2(put):
    """The optimum, or that there is none below the bound, of random files with costs of both
    signs.
    """
    pytoulbar2 = pytest.importorskip("pytoulbar2")
    rng = np.random.default_rng(0)
    feasible = 0
    for k in range(40):
        bound = int(rng.integers(-8, 12))
        costs = [rng.integers(-5, 8, n).tolist() for n in (3, 3, 9, 9, 9)]
        scopes = [["x"], ["y"], ["x", "y"], ["y", "z"], ["z", "x"]]
        functions = {
            f"f{i}": {"scope": s, "costs": c} for i, (s, c) in enumerate(zip(scopes, costs))
        }
        network = {
            "problem": {"name": "p", "mustbe": f"<{bound}.0"},
            "variables": {"x": 3, "y": 3, "z": 3},
            "functions": functions,
        }
        path = put(f"t{k}.cfn", json.dumps(network))
        theirs = pytoulbar2.CFN()
        try:
            theirs.Read(str(path))
            answer = theirs.Solve()
        except pytoulbar2.tb2.Contradiction:  # found while reading
            answer = None
        ours = gm.solve(gm.read(path))
        if answer is None:
            assert ours.energy >= bound
        else:
            feasible += 1
            assert ours.energy == pytest.approx(answer[1]) and ours.energy < bound
    assert 5 < feasible < 40


def test_cfn_names_that_look_like_numbers(put):
    text = (
        '{"problem": {"name": "p", "mustbe": "<9"}, "variables": {"0": ["0", "1"], "7": ["1", '
        '"2"]}, '
        '"functions": {"f": {"scope": ["0"], "defaultcost": 1, "costs": ["1", 2]}%s}}'
    )
    assert gm.read(put("a.cfn", text % "")).unary.tolist() == [1, 2, 0, 0]
    with pytest.raises(gm.FormatError, match="labels of variable 1"):
        gm.read(put("b.cfn", text % ', "g": {"scope": [1], "defaultcost": 1, "costs": ["1", 2]}'))
    with pytest.raises(gm.FormatError, match="variables in the scope"):
        gm.read(put("c.cfn", text % ', "g": {"scope": ["7"], "costs": [1, 2]}'))


def test_cfn_default_cost_alone_and_quoted_blanks(put):
    text = (
        "{problem {p <9} variables {x 2 y 2} functions {f {scope [x y] defaultcost 3 costs [%s]}}}"
    )
    assert gm.read(put("a.cfn", text % "")).energy([1, 1]) == 3
    with pytest.raises(
        gm.FormatError, match="line 1: expected costs of function 'f': numbers, got '5 6'"
    ):
        gm.read(put("b.cfn", text % '0 0 "5 6"'))


def test_long_chains_of_references_are_quick(put):
    n = 20_000
    links = ", ".join(f'"f{i}": {{"scope": ["x"], "costs": "f{i + 1}"}}' for i in range(n))
    text = (
        f'{{"problem": {{"name": "p", "mustbe": "<9"}}, "variables": {{"x": 2}}, "functions": {{{links}, '
        f'"f{n}": {{"scope": ["x"], "costs": [0, 0.5]}}}}}}'
    )
    assert gm.read(put("chain.cfn", text)).unary.tolist() == [0, 0.5 * (n + 1)]
