"""What type checkers and editors see of gmlearn: the names, their types, misspelt keywords."""

import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

import gmlearn as gm
from gmlearn.registry import KINDS
from gmlearn.solvers.problem import Settings

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = [ROOT / "gmlearn", *sorted((ROOT / "plugins").glob("gmlearn_*"))]

RIGHT = """
import gmlearn as gm
from gmlearn_mlca import MLCA

crf = gm.CRF(2, 2).add_unary([[0, 1], [1, 0]])
reveal_type(gm.solve(crf, time_limit=3, step="level"))
reveal_type(gm.train([gm.Sample(crf, [0, 1])]))
reveal_type(MLCA(n_components=2))
reveal_type(gm.testing.brute_force(crf)[1])
"""
WRONG = """
import gmlearn as gm

gm.solve(gm.CRF(2, 2), time_limt=3)
gm.CRF(2, 2).add_unray([[0, 1], [1, 0]])
gm.slove(gm.CRF(2, 2))
"""


def mypy(folder, code):
    """What mypy says of a user's script, away from the checkout."""
    (folder / "script.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "script.py", "--no-error-summary"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("mypy")
    return tmp_path_factory.mktemp("user")


def test_a_right_script_has_types(folder):
    done = mypy(folder, RIGHT)
    types = [line.split('"')[1] for line in done.stdout.splitlines() if "Revealed type" in line]
    assert done.returncode == 0, done.stdout
    assert types == [
        "gmlearn.solvers.result.Result",
        "gmlearn.learn.model.TrainedModel",
        "gmlearn_mlca.estimator.MLCA",
        "float",
    ]


def test_misspelt_names_are_errors(folder):
    done = mypy(folder, WRONG)
    assert done.returncode == 1
    assert 'Unexpected keyword argument "time_limt" for "solve"' in done.stdout
    assert '"CRF" has no attribute "add_unray"' in done.stdout
    assert 'Module has no attribute "slove"' in done.stdout


def test_the_settings_of_the_built_in_solvers_are_typed():
    solvers = [e.obj for e in gm.plugins() if e.kind == "solver" and e.owner == "core"]
    assert set(Settings.__annotations__) == {name for s in solvers for name in s.settings}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_every_package_is_typed_and_its_stub_names_what_is_there(package):
    assert (package / "py.typed").exists()
    module = importlib.import_module(package.name)
    stub = package / "__init__.pyi"
    if not stub.exists():
        return
    taken = [n for n in ast.parse(stub.read_text()).body if isinstance(n, ast.ImportFrom)]
    names = [alias.name for node in taken for alias in node.names]
    assert sorted(names) == module.__all__ == dir(module)
    assert all(getattr(module, name) is not None for name in names)


def test_the_registry_is_typed_for_every_kind():
    stub = (ROOT / "gmlearn" / "registry" / "__init__.pyi").read_text()
    for call in ("get", "objects"):
        for kind, known in KINDS.items():
            given = f"gm.{known.base}"
            found = f"type[{given}]" if known.by_class else given
            returned = found if call == "get" else f"list[{found}]"
            rest = ", name: str" if call == "get" else ""
            assert f'def {call}(self, kind: Literal["{kind}"]{rest}) -> {returned}: ...' in stub
        assert stub.count(f"def {call}(") == len(KINDS)
