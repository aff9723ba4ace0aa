"""Every public function refuses wrong input at the door, with the argument's name."""

from __future__ import annotations

import contextlib
import io

import pytest
from hostile import CALLS, EXCEPTIONS, VALUES

import gmlearn as gm

pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_public_name_is_called_or_excused():
    excused = {name for names in EXCEPTIONS.values() for name in names.split()}
    assert excused.isdisjoint(CALLS)
    assert set(gm.__all__) - set(CALLS) - excused == set()


def answer(function, arguments):
    """What is wrong with the answer; empty if it is a success or an error that names the argument.

    A name that is not registered is told with its kind, a file that is not there by the system.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            function(**arguments)
    except (gm.UnknownNameError, FileNotFoundError):
        return ""
    except (ValueError, TypeError) as error:
        # of two arguments that do not fit, either may be named
        return (
            ""
            if any(name in str(error) for name in arguments)
            else f"{type(error).__name__}: {error}"
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", sorted(CALLS))
def test_hostile_values(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, good = getattr(gm, name), CALLS[name]
    with contextlib.suppress(FileNotFoundError):
        function(**good)
    wrong = [
        f"{argument}={what}: {told}"
        for argument in good
        for what, value in VALUES.items()
        if (told := answer(function, good | {argument: value}))
    ]
    assert wrong == []


@pytest.mark.parametrize("value", [3, None, ["bcfw"], "nonsense"])
def test_arguments_that_a_call_does_not_need_are_checked(value):
    """Nothing is hidden here, and `icm` uses no decomposition."""
    crf = gm.CRF(2, 2).add_unary([[0, 1], [1, 0]])
    crf.add(gm.Potts([[0, 1]], weight="s"))
    wrong = gm.UnknownNameError if value == "nonsense" else TypeError
    with pytest.raises(wrong, match="solver"):
        gm.train([gm.Sample(crf, [0, 1])], completion_solver=value)
    with pytest.raises(wrong, match="decomposition"):
        gm.solve(crf, {"s": 1.0}, solver="icm", decomposition=value)


def test_a_progress_bar_is_shown_or_not():
    crf = gm.CRF(2, 2)
    crf.add(gm.Potts([[0, 1]], weight="s"))
    with pytest.raises(TypeError, match="show_progress: expected True or False, got 'x'"):
        gm.train([gm.Sample(crf, [0, 1])], show_progress="x")
