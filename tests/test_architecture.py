"""The rooms keep to their places: who may import whom, and how long things may be."""

from __future__ import annotations

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
CORE, PLUGINS = ROOT / "gmlearn", ROOT / "plugins"
#: data flows one way: a room imports only rooms before it
ROOMS = (
    "registry",
    "potentials",
    "model",
    "losses",
    "slaves",
    "decompositions",
    "master",
    "solvers",
    "probabilities",
    "parallel",
    "learn",
    "layers",
    "io",
    "plot",
    "experiments",
    "cli",
    "testing",
)
#: (importing file, imported room) -> why it may look ahead
EXCEPTIONS = {
    (
        "registry/manager.py",
        "builtin",
    ): "the built-in parts come in through the hooks, like any plugin's",
    ("solvers/result.py", "plot"): "Result.plot draws itself; imported when it is called",
    (
        "solvers/result.py",
        "probabilities",
    ): "Result.marginals asks the next room; imported when it is called",
    ("probabilities/result.py", "plot"): "Marginals.plot draws itself; imported when called",
    ("learn/history.py", "plot"): "History.plot draws itself; imported when it is called",
    ("cli/check.py", "testing"): "`gmlearn check` runs the conformance kit",
    (
        "testing/door.py",
        "builtin",
    ): "the kit checks the built-in parts by the plugin's name, like any plugin's",
}
#: pickled bytes travel between this process and workers that it started or was told to use; never
#: from or to a file
MESSAGES = ("gmlearn/parallel/messages.py",)
FILES = sorted(CORE.rglob("*.py"))
PLUGIN_FILES = sorted(PLUGINS.rglob("*.py"))
# statements, not lines: the formatter decides how many lines a call takes
MAX_FILE, MAX_FUNCTION = 300, 60


def name(path):
    return str(path.relative_to(ROOT))


def imports(path):
    """Full dotted names of everything a file imports, also inside functions, with the names
    taken from modules.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            package = (
                path.relative_to(PLUGINS if PLUGINS in path.parents else ROOT).parts[: -node.level]
                if node.level
                else ()
            )
            for alias in node.names:
                yield ".".join([*package, *([node.module] if node.module else []), alias.name])


def room_of(dotted):
    """The room of a dotted name under gmlearn, None for the package itself and its small
    helpers.
    """
    parts = dotted.split(".")
    if parts[0] != "gmlearn" or len(parts) < 2:
        return None
    return parts[1] if parts[1] in (*ROOMS, "builtin") else None


@pytest.mark.parametrize("path", FILES, ids=name)
def test_the_core_knows_no_plugin(path):
    assert [i for i in imports(path) if i.startswith("gmlearn_")] == []


@pytest.mark.parametrize("path", [p for p in FILES if len(p.relative_to(CORE).parts) > 1], ids=name)
def test_rooms_import_only_rooms_before_them(path):
    own = path.relative_to(CORE).parts[0]
    if own == "_utils":
        assert [i for i in imports(path) if room_of(i)] == [], "helpers know no room"
        return
    assert own in ROOMS, f"a new room {own}: give it a place in the list"
    relative = str(path.relative_to(CORE))
    later = {
        r
        for r in map(room_of, imports(path))
        if r is not None and (r == "builtin" or ROOMS.index(r) > ROOMS.index(own))
    }
    assert {r for r in later if (relative, r) not in EXCEPTIONS} == set()


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name)
def test_plugins_touch_only_public_names_and_not_one_another(path):
    own = path.relative_to(PLUGINS).parts[0]
    found = list(imports(path))
    assert [i for i in found if i.startswith("gmlearn.")] == [], (
        "import gmlearn as gm, and use its names"
    )
    assert [i for i in found if i.startswith("gmlearn_") and i.split(".")[0] != own] == []


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name)
def test_plugins_use_only_names_that_gmlearn_exports(path):
    import gmlearn as gm

    tree = ast.parse(path.read_text())
    alias = {
        a.asname or a.name
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for a in n.names
        if a.name == "gmlearn"
    }
    taken = (
        n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    )
    used = {n.attr for n in taken if n.value.id in alias}
    assert used <= set(gm.__all__), sorted(used - set(gm.__all__))


def statements(tree):
    return sum(isinstance(n, ast.stmt) for n in ast.walk(tree)) - isinstance(tree, ast.stmt)


@pytest.mark.parametrize("path", [*FILES, *PLUGIN_FILES], ids=name)
def test_files_and_functions_fit_one_sitting(path):
    tree = ast.parse(path.read_text())
    assert statements(tree) <= MAX_FILE
    functions = (
        n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    long = {n.name: statements(n) for n in functions if statements(n) > MAX_FUNCTION}
    assert long == {}


@pytest.mark.parametrize("path", [*FILES, *PLUGIN_FILES], ids=name)
def test_no_pickle_eval_or_bare_except(path):
    tree = ast.parse(path.read_text())
    calls = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert not calls & {"eval", "exec"}
    if name(path) not in MESSAGES:
        assert not {i.split(".")[0] for i in imports(path)} & {
            "pickle",
            "cPickle",
            "dill",
            "cloudpickle",
            "marshal",
        }
    for handler in (n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler)):
        assert handler.type is not None, "a bare except"
        assert not all(isinstance(s, ast.Pass) for s in handler.body), (
            "an error swallowed in silence"
        )


@pytest.mark.parametrize("relative, room", sorted(EXCEPTIONS))
def test_exceptions_are_still_needed(relative, room):
    assert room in {room_of(i) for i in imports(CORE / relative)}, "strike the exception"


def test_no_two_test_files_share_a_name():
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_the_list_of_slow_tests_names_tests(unused_lines):
    assert unused_lines == set()
