"""Formulas of pages and docstrings: MathML, one description for each parameter, brackets that
are no links.
"""

import re
import sys

import docs_code
import pytest

pytest.importorskip("griffe")
pytest.importorskip("latex2mathml")
sys.path.insert(0, str(docs_code.ROOT / "docs"))
import formulas

sys.path.pop(0)

SOURCES = [*(docs_code.ROOT / "gmlearn").rglob("*.py"), *(docs_code.ROOT / "plugins").rglob("*.py")]


def test_a_formula_is_mathml():
    shown = formulas.mathml(r"\sum_p u_p(x_p; w) \le \frac{a + b}{2}")
    assert shown.startswith("<math")
    assert "<mfrac>" in shown
    assert "\\" not in shown
    assert 'display="block"' in formulas.mathml("x", display=True)


def test_an_unknown_command_ends_the_build():
    with pytest.raises(ValueError, match=r"\\nonsense is not understood"):
        formulas.mathml(r"a \nonsense b")


def test_what_arithmatex_leaves_is_drawn():
    shown = formulas.on_page_content(
        r'<p>a <span class="arithmatex">\(x &lt; \arg\min_y y\)</span></p>'
        r'<div class="arithmatex">\[' + "\nx\n" + r"\]</div>"
    )
    assert shown.count("<math") == 2
    assert "arithmatex" not in shown
    assert "argmin" in shown


def test_every_formula_of_the_docstrings_is_understood():
    seen = 0
    for source in SOURCES:
        for latex in re.findall(r":math:`([^`]*)`", source.read_text("utf-8")):
            formulas.mathml(latex.replace("\\\\", "\\"))
            seen += 1
    assert seen > 50


def test_docstring():
    shown = formulas.markdown(
        "Edges :math:`s\\,[a \\ne b]`, and [l != truth][v] in words.\n\n.. math:: a +\n    "
        "b\n\nParameters\n----------\n"
        "edges : int (M, 2).\n\nReturns\n-------\ncosts : float (M,).\n\nExamples\n--------\n>>> "
        "f()\n[1, 2]"
    )
    assert "$s\\,[a \\ne b]$, and \\[l != truth]\\[v] in words" in shown
    assert "\n$$\na + b\n$$\n" in shown
    assert "\nedges\n    int (M, 2).\n" in shown
    assert "\nReturns\n-------\ncosts :\n    float (M,).\n" in shown
    assert shown.endswith(">>> f()\n[1, 2]")


def test_an_answer_without_a_name():
    assert formulas.markdown("Draw.\n\nReturns\n-------\nThe axes.").endswith(
        "\nReturns\n-------\n:\n    The axes."
    )
