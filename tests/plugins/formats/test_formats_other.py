"""Bayesian networks, MaxSAT, quadratic functions and OpenGM's files: what they mean and how they
fail.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gmlearn as gm

BIF = """// a comment
network "weather" { property author nobody; }
variable Rain { type discrete [ 2 ] { yes, no }; property x = 1; }
variable Wet { type discrete [ 3 ] { dry, damp, wet }; }
variable Slip { type discrete [ 2 ] { yes, no }; }
probability ( Rain ) { table 0.2, 0.8; }
probability ( Wet | Rain ) {
  (yes) 0.1, 0.2, 0.7;
  (no) 0.9, 0.1, 0.0;
}
/* two parents, one row by default */
probability ( Slip | Wet, Rain ) {
  default 0.5, 0.5;
  (wet, yes) 0.9, 0.1;
}
"""

XMLBIF = """<?xml version="1.0"?>
<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]>
<BIF VERSION="0.3"><NETWORK><NAME>weather</NAME>
<VARIABLE TYPE="nature"><NAME>Rain</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>Wet</NAME><OUTCOME>dry</OUTCOME><OUTCOME>damp</OUTCOME>
<OUTCOME>wet</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>Slip</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
<DEFINITION><FOR>Rain</FOR><TABLE>0.2 0.8</TABLE></DEFINITION>
<DEFINITION><FOR>Wet</FOR><GIVEN>Rain</GIVEN><TABLE>0.1 0.2 0.7 0.9 0.1 0.0</TABLE></DEFINITION>
<DEFINITION><FOR>Slip</FOR><GIVEN>Wet</GIVEN><GIVEN>Rain</GIVEN>
<TABLE>0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.9 0.1 0.5 0.5</TABLE></DEFINITION>
</NETWORK></BIF>
"""


def weather(rain, wet, slip):
    p = [0.2, 0.8][rain] * [[0.1, 0.2, 0.7], [0.9, 0.1, 0.0]][rain][wet]
    return p * ([0.9, 0.1] if (wet, rain) == (2, 0) else [0.5, 0.5])[slip]


@pytest.mark.parametrize(
    ("name", "text"), [("m.bif", BIF), ("m.xmlbif", XMLBIF), ("m.xml", XMLBIF)]
)
def test_bayesian_networks(put, name, text):
    crf = gm.read(put(name, text))
    for x in itertools.product(range(2), range(3), range(2)):
        assert np.exp(-crf.energy(x)) == pytest.approx(weather(*x))
    found = gm.marginals(crf)
    assert found.log_partition == pytest.approx(0.0, abs=1e-9)
    assert found.node[0, 0] == pytest.approx(0.2)


def test_bif_files_of_pgmpy(put, tmp_path):
    """What pgmpy writes has the same joint distribution here."""
    readwrite = pytest.importorskip("pgmpy.readwrite")
    network = readwrite.BIFReader(string=BIF.replace("default 0.5, 0.5;", _all_rows())).get_model()
    readwrite.BIFWriter(network).write_bif(str(tmp_path / "p.bif"))
    crf = gm.read(tmp_path / "p.bif")
    place = _declared(tmp_path / "p.bif").index("Rain")
    found = gm.marginals(crf).node[place, :2]
    assert sorted(found) == pytest.approx([0.2, 0.8])


def _all_rows():
    rows = [(w, r) for w in ("dry", "damp", "wet") for r in ("yes", "no")]
    rows.remove(("wet", "yes"))
    return "\n".join(f"({w}, {r}) 0.5, 0.5;" for w, r in rows)


def _declared(path):
    return [line.split()[1] for line in path.read_text().split("\n") if line.startswith("variable")]


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("variable Wet", "variable Rain", "line 4: expected different names of variables"),
        ("[ 3 ]", "[ 4 ]", "line 4: expected 4 different states"),
        ("( Rain )", "( Sun )", "variables that were declared, got 'Sun'"),
        ("( Wet | Rain )", "( Rain | Wet )", "one table for each variable, got two for 'Rain'"),
        ("table 0.2, 0.8", "table 0.2", "2 in the table of 'Rain', got 1"),
        ("0.2, 0.8", "0.2, x", "line 6: expected numbers, got 'x'"),
        ("0.2, 0.8", "0.2, -0.8", "probabilities of at least 0"),
        ("(no)", "(maybe)", "a state of each parent"),
        ("default 0.5, 0.5;", "", "probabilities of at least 0"),
        ("probability ( Rain ) { table 0.2, 0.8; }", "", "none for 'Rain'"),
        ("(wet, yes) 0.9, 0.1;\n}", "", "the end of the file"),
    ],
)
def test_bif_errors(put, old, new, match):
    assert BIF.count(old) == 1
    with pytest.raises(gm.FormatError, match=match):
        gm.read(put("bad.bif", BIF.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("<!ELEMENT BIF ( NETWORK )*>", '<!ENTITY a "aaaa">', "no declared entities, got 'a'"),
        ("</NETWORK>", "", "well-formed XML"),
        ("<FOR>Rain</FOR>", "", "one <FOR>, got 0"),
        ("<TABLE>0.2 0.8", "<TABLE>0.2", "probabilities of 'Rain'"),
        ("<TABLE>0.2 0.8", "<TABLE>0.2 0.8 1", "the end of the 2 probabilities"),
        ("<NAME>Wet</NAME>", "<NAME>Rain</NAME>", "different variables"),
    ],
)
def test_xmlbif_errors(put, old, new, match):
    with pytest.raises(gm.FormatError, match=match):
        gm.read(put("bad.xmlbif", XMLBIF.replace(old, new)))


CLAUSES = [(4, [1, -2]), (2, [-1, 2, -3]), (3, [3]), (5, [-3, 2, 1, -4]), (np.inf, [4, 3, 1, 2])]


def clause_cost(x):
    unmet = [w for w, c in CLAUSES if not any((x[abs(l) - 1] == 1) == (l > 0) for l in c)]
    return sum(unmet)


def clause_text(weight, literals, hard):
    return f"{hard if np.isinf(weight) else weight} {' '.join(map(str, literals))} 0"


@pytest.mark.parametrize("header", ["c text\np wcnf 4 6 100\n", ""])
def test_clauses(put, header):
    hard = "100" if header else "h"
    lines = [clause_text(w, c, hard) for w, c in CLAUSES] + ["7 1 -1 2 0"]
    crf = gm.read(put("m.wcnf", header + "\n".join(lines) + "\n"))
    for x in itertools.product(range(2), repeat=4):
        assert crf.energy(x) == clause_cost(x)


def test_cnf(put):
    crf = gm.read(put("m.cnf", "c\np cnf 3 3\n1 -2 0\n-1 0\n1 2 3 -1 0\n"))
    assert crf.energy([1, 0, 0]) == 1 and crf.energy([0, 1, 0]) == 1 and crf.energy([0, 0, 1]) == 0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("p wcnf 3\n", "line 1: expected p cnf VARIABLES"),
        ("p cnf 2 1\n1 2\n", "line 2: expected literals and a 0"),
        ("p cnf 2 1\n1 3 0\n", "line 2: expected literals of at most 2 variables"),
        ("p cnf 2 2\n1 2 0\n", "expected 2 clauses, got 1"),
        ("p wcnf 2 1 9\nx 1 0\n", "line 2: .*numbers"),
        ("p cnf 99999999999 0\n", "states over all variables"),
        ("5 1 99999999999 0\n", "states over all variables"),
        ("", "expected clauses"),
    ],
)
def test_clause_errors(put, text, match):
    with pytest.raises(gm.FormatError, match=match):
        gm.read(put("bad.wcnf", text))


def test_quadratic_functions(put):
    entries = [(1, 1, -2.0), (1, 2, 1.5), (2, 3, -1.0), (3, 3, 0.5)]
    for n, m, values in ((3, 4, (0, 1)), (-3, 4, (1, -1)), (3, -4, (0, 1))):
        text = f"{n} {m}\n" + "\n".join(f"{i} {j} {w}" for i, j, w in entries)
        crf = gm.read(put("m.qpbo", text))
        for x in itertools.product(range(2), repeat=3):
            v = [values[l] for l in x]
            total = sum(w * v[i - 1] * v[j - 1] * (1 if i == j else 2) for i, j, w in entries)
            assert crf.energy(x) == pytest.approx(np.sign(m) * total)
    for text, match in {
        "3 1\n1 4 2.0\n": r"a column in 1\.\.3",
        "0 1\n1 1 1\n": "at least one variable",
        "3 9999\n1 1 1\n": "room for",
        "99999999999 1\n1 1 1\n": "states over all variables",
    }.items():
        with pytest.raises(gm.FormatError, match=match):
            gm.read(put("bad.qpbo", text))


@pytest.fixture
def opengm_file(tmp_path):
    """A model with a table, a Potts function, a truncated difference and a constant."""
    h5py = pytest.importorskip("h5py")
    table = np.arange(6.0).reshape(2, 3)

    def write(name="m.h5", **changes):
        data = {
            "header": [2, 0, 3, 4, 4, 16000, 1, 16006, 1, 16003, 1, 16008, 1, 1],
            "numbers-of-states": [2, 3, 3],
            "factors": [0, 0, 2, 0, 1, 0, 1, 2, 1, 2, 0, 2, 2, 1, 2, 0, 3, 1, 0],
            "function-id-16000/indices": [2, 2, 3],
            "function-id-16000/values": table.ravel(order="F"),
            "function-id-16006/indices": [3, 3],
            "function-id-16006/values": [0.5, 2.0],
            "function-id-16003/indices": [3, 3],
            "function-id-16003/values": [1.0, 3.0],
            "function-id-16008/indices": [1, 2],
            "function-id-16008/values": [7.0],
        } | changes
        with h5py.File(tmp_path / name, "w") as file:
            group = file.create_group("gm")
            for key, value in data.items():
                kind = np.float64 if key.endswith("values") else np.uint64
                if value is not None:
                    group.create_dataset(key, data=np.array(value, kind))
        return tmp_path / name

    return write, table


def test_opengm(opengm_file):
    write, table = opengm_file
    crf = gm.read(write())
    for x in itertools.product(range(2), range(3), range(3)):
        gap = min(abs(x[1] - x[2]), 1.0)
        cost = table[x[0], x[1]] + (0.5 if x[1] == x[2] else 2.0) + 3 * gap + 7
        assert crf.energy(x) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"header": None}, "no group with a header"),
        ({"header": [2, 0, 3]}, "a header"),
        ({"numbers-of-states": [2, 3]}, "3 variables"),
        ({"numbers-of-states": [2, 3, 10**9]}, "states over all variables"),
        ({"factors": [0, 0, 2, 0, 9]}, r"variables in 0\.\.2"),
        ({"factors": [5, 0, 2, 0, 1]}, "functions of the file"),
        ({"factors": [0, 0, 2, 1, 2]}, "a table of shape"),
        ({"function-id-16000/indices": [2, 2, 10**9]}, "room for"),
        ({"function-id-16000/values": [1.0, np.nan] * 3}, "NaN"),
        ({"header": [2, 0, 3, 4, 1, 16777, 1, 1]}, "functions with a number among"),
    ],
)
def test_opengm_errors(opengm_file, changes, match):
    write, _ = opengm_file
    with pytest.raises(gm.FormatError, match=match):
        gm.read(write("bad.h5", **changes))


def test_damaged_hdf5_files_are_refused(opengm_file, tmp_path):
    """The library that reads them lives in a child: whatever happens there is an error here."""
    write, _ = opengm_file
    whole = write().read_bytes()
    rng = np.random.default_rng(0)
    for k in range(6):
        bad = bytearray(whole)
        for place in rng.integers(0, len(bad), 30):
            bad[place] = rng.integers(256)
        path = tmp_path / f"bad{k}.h5"
        path.write_bytes(bytes(bad) if k else whole[: len(whole) // 2])
        try:
            assert isinstance(gm.read(path), gm.CRF)
        except gm.FormatError as error:
            assert str(path) in str(error)
