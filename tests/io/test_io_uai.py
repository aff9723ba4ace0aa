"""UAI files: what they mean, evidence, writing, and the energies that they cannot hold."""

from __future__ import annotations

import gzip
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gmlearn as gm
from gmlearn import io

SMALL = """MARKOV
3
2 3 2
4
1 1
2 0 1
3 2 0 1
0

3
 0.5 0 2
6
 1 2 3 4 5 6
12
 1 2 3 4 5 6 7 8 9 10 11 12
1
 0.25
"""


def labellings(crf):
    return [np.array(x) for x in itertools.product(*map(range, crf.n_states.tolist()))]


def test_meaning(put):
    crf = io.read(put("small.uai", SMALL))
    pair, triple = np.arange(1, 7).reshape(2, 3), np.arange(1, 13).reshape(2, 2, 3)
    for a, b, c in labellings(crf):
        value = [0.5, 0, 2][b] * pair[a, b] * triple[c, a, b] * 0.25
        assert crf.energy([a, b, c]) == pytest.approx(-np.log(value) if value else np.inf)


def test_bayes_and_gz_mean_the_same(put):
    plain = io.read(put("a.uai", SMALL))
    other = io.read(put("b.UAI.gz", gzip.compress(SMALL.replace("MARKOV", "BAYES").encode())))
    for x in labellings(plain):
        assert plain.energy(x) == other.energy(x)


@pytest.mark.parametrize(
    ("old", "new", "line", "expected", "got"),
    [
        ("MARKOV", "MARKOW", 1, "MARKOV or BAYES", "'MARKOW'"),
        ("\n3\n2 3 2", "\nthree\n2 3 2", 2, "the number of variables", "'three'"),
        ("\n3\n2 3 2", "\n0\n2 3 2", 2, "the number of variables, at least 1", "'0'"),
        ("\n3\n2 3 2", "\n999999999\n2 3 2", 3, "999999999 numbers of states", "room for at most"),
        ("2 3 2", "2 0 2", 3, "numbers of states", "'0'"),
        ("2 3 2", "2 2.5 2", 3, "numbers of states", "'2.5'"),
        ("2 3 2", "2 3000000000 2", 3, "states over all variables", "3e+09"),
        ("\n4\n", "\n400\n", 4, "the file has room for", "'400'"),
        ("\n2 0 1", "\n2 0 7", 6, "variables of factor 1: whole numbers in 0..2", "'7'"),
        ("\n2 0 1", "\n2 1 1", 6, "different variables", "[1, 1]"),
        ("\n2 0 1", "\n7 0 1", 6, "the number of variables of factor 1 in 0..3", "'7'"),
        ("\n6\n", "\n5\n", 12, "6 entries in factor 1", "'5'"),
        (" 1 2 3 4 5 6\n", " 1 2 -3 4 5 6\n", 13, "values of factor 1, at least 0", "'-3'"),
        (" 1 2 3 4 5 6\n", " 1 2 nan 4 5 6\n", 13, "finite", "'nan'"),
        (" 1 2 3 4 5 6\n", " 1 2 1e999 4 5 6\n", 13, "finite", "'1e999'"),
        (" 1 2 3 4 5 6\n", " 1 2 3-1 4 5 6\n", 13, "values of factor 1: numbers", "'3-1'"),
        (" 1 2 3 4 5 6\n", " 1 2 3_1 4 5 6\n", 13, "values of factor 1: numbers", "'3_1'"),
        (" 0.25", " 0.25 1", 17, "the end of the file", "'1'"),
        (" 0.25\n", "", 17, "values of factor 3", "the end of the file"),
    ],
)
def test_errors_say_where_and_what(put, old, new, line, expected, got):
    assert SMALL.count(old) == 1
    with pytest.raises(io.FormatError) as caught:
        io.read(put("bad.uai", SMALL.replace(old, new)))
    error = caught.value
    assert error.file.endswith("bad.uai")
    assert expected in error.expected
    assert got in error.got
    assert error.line == line
    assert f"line {line}: expected " in str(error)


def test_evidence_forms(put):
    model = put("small.uai", SMALL)
    free = io.read(model)
    for content in ("2 0 1 2 0", "2\n0 1\n2 0\n", "1\n2 0 1 2 0\n"):
        fixed = io.read(model, evidence=put("small.evid", content))
        for x in labellings(free):
            assert fixed.energy(x) == (free.energy(x) if x[0] == 1 and x[2] == 0 else np.inf)
    assert io.read(model, evidence={0: 1}).energy([0, 0, 0]) == np.inf
    assert io.read_evidence(put("none.evid", "0")) == [{}]
    assert io.read_evidence(put("two.evid", "2\n1 0 1\n1 2 0\n")) == [{0: 1}, {2: 0}]
    with pytest.raises(ValueError, match="holds 2 samples"):
        io.read(model, evidence=put("two.evid", "2\n1 0 1\n1 2 0\n"))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "the number of observed variables"),
        ("1 5 0", r"a variable in 0\.\.2"),
        ("1 0 2", "variable 0, which has 2 states"),
        ("2 0 0 0 1", "one label of variable 0"),
        ("3 0 1", "expected"),
        ("1 0 x", "numbers"),
        ("999999999 1", "room for"),
    ],
)
def test_bad_evidence(put, content, match):
    with pytest.raises(io.FormatError, match=match):
        io.read(put("small.uai", SMALL), evidence=put("bad.evid", content))


def test_round_trip_of_every_block(full_model, tmp_path):
    crf, weights = full_model
    for name in ("m.uai", "m.uai.gz"):
        io.write(crf, tmp_path / name, weights)
        again = io.read(tmp_path / name)
        for x in labellings(crf):
            assert again.energy(x) == pytest.approx(crf.energy(x, weights), rel=1e-9, abs=1e-12)


@st.composite
def models(draw):
    cost = st.floats(-600, 600) | st.just(float("inf"))
    states = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    crf = gm.CRF(states)
    crf.add_unary([np.array(draw(st.lists(cost, min_size=n, max_size=n))) for n in states])
    for _ in range(draw(st.integers(0, 3))):
        scope = draw(st.lists(st.integers(0, len(states) - 1), min_size=1, max_size=3, unique=True))
        size = int(np.prod([states[v] for v in scope]))
        table = np.array(draw(st.lists(cost, min_size=size, max_size=size))).reshape(
            [states[v] for v in scope]
        )
        crf.add(gm.Table([scope], [table]))
    return crf


@settings(deadline=None, max_examples=60)
@given(crf=models())
def test_round_trip(crf, tmp_path_factory):
    path = tmp_path_factory.mktemp("uai") / "m.uai"
    io.write(crf, path)
    again = io.read(path)
    assert again.n_states.tolist() == crf.n_states.tolist()
    for x in labellings(crf):
        assert again.energy(x) == pytest.approx(crf.energy(x), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("cost", [-800.0, 720.0])
def test_costs_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path, cost):
    crf = gm.CRF([2, 2])
    crf.add(gm.Table([[0, 1]], [[0.0, cost], [0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"variables \[0, 1\] has the cost .*write it as \.npz"):
        io.write(crf, tmp_path / "m.uai")
    assert not list(tmp_path.iterdir())


def test_weights_are_needed(full_model, tmp_path):
    with pytest.raises(ValueError, match="no value given for the segment"):
        io.write(full_model[0], tmp_path / "m.uai")


def test_unknown_extension_and_read_only_formats(tmp_path):
    crf = gm.CRF([2])
    with pytest.raises(ValueError, match=r"no file format for .*\.uai"):
        io.read("model.xyz")
    with pytest.raises(ValueError, match=r"'wcsp' can be read but not written"):
        io.write(crf, tmp_path / "m.wcsp")
    with pytest.raises(TypeError, match=r"expected a gmlearn\.CRF"):
        io.write("crf", tmp_path / "m.uai")
    with pytest.raises(FileNotFoundError):
        io.read(tmp_path / "absent.uai")


def test_long_numbers_cross_chunks(put, monkeypatch):
    from gmlearn.io import text

    whole = io.read(put("a.uai", SMALL))
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(text, "CHUNK_BYTES", size)
        pieces = io.read(put("b.uai", SMALL))
        assert all(pieces.energy(x) == whole.energy(x) for x in labellings(whole))
        with pytest.raises(io.FormatError, match=r"line 13: .*'4x'"):
            io.read(put("c.uai", SMALL.replace("2 3 4 5 6\n12", "2 3 4x 5 6\n12")))
