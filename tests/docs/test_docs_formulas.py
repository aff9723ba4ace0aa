"""Docstrings on the pages: formulas in Unicode, one description for each parameter, brackets that are no links."""

import sys

import docs_code
import pytest

pytest.importorskip("griffe")
sys.path.insert(0, str(docs_code.ROOT / "docs"))
import unicode_docstrings

sys.path.pop(0)


@pytest.mark.parametrize(("latex", "text"), [
    (r"\sum_p u_p(x_p; w)", "Σ_p u_p(x_p; w)"),
    (r"\arg\min_x \theta \cdot x \le \frac{a + b}{2}", "argmin_x θ · x ≤ (a + b)/2"),
    (r"\mathrm{const}_c + \|w\|^2,\quad \bar x \ne \hat{\lambda}", "const_c + ‖w‖^2,    x\u0304 ≠ λ\u0302".replace("    ", "   ")),
    (r"\{i : y_i = c\}", "{i : y_i = c}"),
])
def test_formula(latex, text):
    assert unicode_docstrings.unicode_formula(latex) == text


def test_docstring():
    shown = unicode_docstrings.markdown(
        "Edges :math:`s\\,[a \\ne b]`, and [l != truth][v] in words.\n\nParameters\n----------\nedges : int (M, 2).\n\n"
        "Returns\n-------\ncosts : float (M,).\n\nExamples\n--------\n>>> f()\n[1, 2]")
    assert "`s [a ≠ b]`, and \\[l != truth]\\[v] in words" in shown
    assert "\nedges\n    int (M, 2).\n" in shown
    assert "\n**Returns**\n\n- `costs`: float (M,).\n" in shown
    assert shown.endswith(">>> f()\n[1, 2]")
