"""Plugins: discovery, the contract, and what happens when one breaks it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import types
from importlib import metadata

import numpy as np
import pytest
from core_cases import Weird

import gmlearn as gm
from gmlearn.registry import KINDS, Registry, hookspecs, read_manifest, registry

ROOT = pathlib.Path(__file__).parents[2]


def plugin(name, **hooks):
    """A module object with the given hooks."""
    module = types.ModuleType(name)
    for hook, things in hooks.items():
        setattr(module, hook, gm.hookimpl(returning(things)))
    return module


def returning(things):
    def hook():
        return things

    return hook


class Lonely(Weird):
    name = "lonely"


class Other(Weird):
    name = "lonely"


class FakePoint:
    """An entry point as ``importlib.metadata`` gives it."""

    def __init__(self, name, target):
        self.name, self.target, self.value = name, target, f"{name}.plugin"
        self.dist = types.SimpleNamespace(name=f"dist-of-{name}")

    def load(self):
        return self.target()


def raising(error):
    def load():
        raise error

    return load


@pytest.fixture
def session():
    """The global registry, put back as it was."""
    registry.entries()
    entries, failures = dict(registry._entries), dict(registry.failures)
    names = {n for n, _ in registry._manager.list_name_plugin()}
    yield registry
    registry._entries.clear()
    registry._entries.update(entries)
    registry.failures = failures
    for name in {n for n, _ in registry._manager.list_name_plugin()} - names:
        registry._manager.unregister(name=name)


def with_points(monkeypatch, *points):
    monkeypatch.setattr(metadata, "entry_points", lambda group: list(points))
    return Registry()


def test_an_entry_point_brings_its_things(monkeypatch):
    found = with_points(
        monkeypatch, FakePoint("mine", lambda: plugin("mine", gmlearn_potentials=[Lonely]))
    )
    assert found.get("potential", "lonely") is Lonely
    assert [e.owner for e in found.entries() if e.name == "lonely"] == ["mine"]
    assert found.get("potential", "potts") is gm.Potts
    assert found.failures == {}


@pytest.mark.parametrize(
    "broken, reason",
    [
        (raising(ImportError("no module named 'gurobi'")), "ImportError: no module named 'gurobi'"),
        (raising(RuntimeError("boom")), "RuntimeError: boom"),
        (lambda: plugin("bad", gmlearn_potentials=[object()]), "has no `name`"),
        (
            lambda: plugin("bad", gmlearn_solvers=[types.SimpleNamespace(name="s", run=print)]),
            "the solver 's' lacks refuses",
        ),
        (
            lambda: plugin("bad", gmlearn_potentials=[type("P", (gm.Potts,), {"name": "potts"})]),
            "'core' and by 'broken'",
        ),
        (
            lambda: plugin("bad", gmlearn_potential=[Lonely]),
            r"unknown hooks \['gmlearn_potential'\]; known: .*gmlearn_potentials",
        ),
    ],
)
def test_a_broken_plugin_is_named_with_its_reason_and_the_rest_works(monkeypatch, broken, reason):
    found = with_points(
        monkeypatch,
        FakePoint("broken", broken),
        FakePoint("sound", lambda: plugin("sound", gmlearn_potentials=[Lonely])),
    )
    with pytest.warns(gm.PluginWarning, match="gmlearn plugin 'broken' was left out") as caught:
        found.entries()
    assert len(caught) == 1
    assert re.search(reason, found.failures["broken"])
    assert found.get("potential", "lonely") is Lonely
    with pytest.raises(gm.UnknownNameError, match="Plugins that failed to load: broken"):
        found.get("solver", "s")


def test_a_broken_plugin_leaves_nothing_behind():
    found = Registry(entry_points=False)
    with pytest.raises(gm.PluginError):
        found.add_plugin(
            plugin("half", gmlearn_potentials=[Lonely], gmlearn_solvers=[object()]), "half"
        )
    assert found.entries() == []
    found.add_plugin(plugin("half", gmlearn_potentials=[Lonely]), "half")  # its name is free again
    assert found.get("potential", "lonely") is Lonely


def test_blocked_plugins_are_not_loaded(monkeypatch):
    monkeypatch.setenv("GMLEARN_BLOCK_PLUGINS", "broken,other")
    found = with_points(monkeypatch, FakePoint("broken", raising(RuntimeError("boom"))))
    assert found.get("potential", "potts") is gm.Potts and found.failures == {}


def test_a_name_clash_names_both_owners():
    found = Registry(entry_points=False)
    found.add_plugin(plugin("first", gmlearn_potentials=[Lonely]), "first")
    with pytest.raises(
        gm.PluginError, match=r"potential 'lonely' is registered twice: by 'first' and by 'second'"
    ):
        found.add_plugin(plugin("second", gmlearn_potentials=[Other]), "second")
    with pytest.raises(gm.PluginError, match=r"registered twice: by 'third' and by 'third'"):
        found.add_plugin(plugin("third", gmlearn_losses=[_loss("l"), _loss("l")]), "third")
    with pytest.raises(gm.PluginError, match="a plugin named 'first' is already registered"):
        found.add_plugin(plugin("first"), "first")


def _loss(name):
    return types.SimpleNamespace(name=name, value=print, blocks=print)


def test_one_name_may_serve_two_kinds():
    found = Registry(entry_points=False)
    found.add_plugin(
        plugin("p", gmlearn_potentials=[Lonely], gmlearn_losses=[_loss("lonely")]), "p"
    )
    assert {e.kind for e in found.entries()} == {"potential", "loss"}


def test_an_unknown_hook_of_an_object_is_refused():
    class Bag:
        @gm.hookimpl
        def gmlearn_slaves(self):
            return []

    found = Registry(entry_points=False)
    with pytest.raises(Exception, match=r"unknown hook.*gmlearn_slaves"):
        found.add_plugin(Bag(), "bag")
    assert found.entries() == []


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(gm.UnknownNameError, match="no solver named 'bcwf'; did you mean 'bcfw'"):
        gm.solve(gm.CRF(1, 2), solver="bcwf")
    with pytest.raises(
        gm.UnknownNameError, match="no potential named 'pots'; did you mean 'potts'"
    ):
        gm.CRF(2, 2).add("pots", edges=[[0, 1]])
    with pytest.raises(
        gm.UnknownNameError, match=r"no solver named 'zzzzzzzz'; registered: .*auto.*trws"
    ):
        gm.solve(gm.CRF(1, 2), solver="zzzzzzzz")


def test_register_in_a_script(session):
    gm.register(Lonely)
    crf = gm.CRF(3, 2).add_unary([[0, 1], [1, 0], [0, 3]])
    crf.add("lonely", cliques=[[0, 1, 2]], rate=[5.0])
    assert gm.solve(crf).labels.tolist() == [0, 0, 0]
    assert [(e.kind, e.owner) for e in gm.plugins() if e.name == "lonely"] == [
        ("potential", "script")
    ]
    gm.register(Other)  # a script may be run again in one session
    assert registry.get("potential", "lonely") is Other


def test_register_a_module_and_its_name(session):
    gm.register(plugin("some_module", gmlearn_potentials=[Lonely]))
    assert [e.owner for e in gm.plugins() if e.name == "lonely"] == ["some_module"]
    gm.register(plugin("another", gmlearn_losses=[_loss("odd")]), name="given")
    assert [e.owner for e in gm.plugins() if e.name == "odd"] == ["given"]


def test_register_refuses_what_it_does_not_know(session):
    with pytest.raises(
        gm.PluginError,
        match=r"cannot be registered: expected a module with gmlearn hooks, or a class derived from "
        r"one of gmlearn.Block, .*, or an object derived from one of gmlearn.SlaveSolver, ",
    ):
        gm.register(3)
    mine = type("Potts2", (gm.Potts,), {"name": "potts"})
    with pytest.raises(
        gm.PluginError, match="'potts' is registered twice: by 'core' and by 'script'"
    ):
        gm.register(mine)
    with pytest.raises(gm.PluginError, match="has no `name`"):
        gm.register(type("Nameless", (gm.Potts,), {"name": ""}))


def test_plugins_shows_kind_name_and_owner_of_everything():
    entries = gm.plugins()
    assert all(e.kind in KINDS and e.name and e.owner for e in entries)
    assert len({(e.kind, e.name) for e in entries}) == len(entries)
    named = {(e.kind, e.name) for e in entries if e.owner == "core"}
    assert {
        ("potential", "unary"),
        ("potential", "potts"),
        ("potential", "truncated"),
        ("potential", "difference"),
        ("potential", "learnt_table"),
        ("potential", "table"),
    } <= named
    assert {
        ("slave solver", n) for n in ("enumeration", "potts-edge", "pairwise-edge", "table")
    } <= named
    assert {
        ("decomposition", n)
        for n in ("auto", "per-clique", "rows-columns", "chains", "trees", "subgraphs")
    } <= named
    assert {
        ("solver", n)
        for n in (
            "auto",
            "dual-subgradient",
            "trws",
            "mplp",
            "bcfw",
            "lp",
            "exact",
            "brute-force",
            "tree",
            "icm",
            "chain-icm",
            "maxflow",
            "alpha-expansion",
            "toulbar2",
        )
    } <= named


def test_every_hook_has_a_kind_and_every_kind_a_hook():
    hooks = {n for n in vars(hookspecs) if n.startswith("gmlearn_")}
    assert hooks == {kind.hook for kind in KINDS.values()}
    assert all(vars(hookspecs)[h].__doc__ for h in hooks)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_hook_has_a_consumer(kind):
    """What plugins may give, something outside the registry asks for."""
    asks = re.compile(rf"\.(get|objects|entries)\(\s*[\"']{kind}[\"']")
    users = [
        p
        for p in (ROOT / "gmlearn").rglob("*.py")
        if p.parent.name != "registry" and asks.search(p.read_text())
    ]
    assert users, f"nothing in gmlearn/ looks up a {kind}"


def test_a_custom_potential_and_its_slave_take_one_class_each(session):
    """What the README promises: register both, use them by name with every master."""

    class Span(gm.Block):
        """Cliques that pay the range of their labels."""

        name = "span"

        def energy(self, x, w):
            return (x.max(axis=1) - x.min(axis=1)).astype(float)

    class SpanSlave(gm.SlaveSolver):
        """Every window of labels in turn."""

        name = "span-slave"
        calls = 0

        def refuses(self, block):
            return None if isinstance(block, Span) else "not Span cliques"

        def cost(self, block):
            return 0.0

        def minimise(self, block, theta, w):
            SpanSlave.calls += 1
            m, k, n = theta.shape
            best, labels = np.full(m, np.inf), np.zeros((m, k), np.int64)
            for low in range(n):
                for high in range(low, n):
                    window = theta[:, :, low : high + 1]
                    value = window.min(axis=2).sum(axis=1) + high - low
                    take = value < best
                    best[take], labels[take] = value[take], low + window.argmin(axis=2)[take]
            return labels, best

    gm.register(Span)
    gm.register(SpanSlave())
    rng = np.random.default_rng(0)
    crf = gm.CRF(5, 3).add_unary(2 * rng.normal(size=(5, 3)))
    crf.add("span", variables=[[0, 1, 2], [1, 2, 3], [2, 3, 4]])
    best = gm.solve(crf, solver="brute-force").energy
    for solver in ("bcfw", "dual-subgradient"):
        r = gm.solve(crf, solver=solver)
        assert r.bound <= best + 1e-9 and r.energy >= best - 1e-9
        assert r.bound >= best - 0.3
    assert SpanSlave.calls > 10


def test_two_packages_with_one_entry_point_name_are_reported(monkeypatch):
    found = with_points(
        monkeypatch,
        FakePoint("same", lambda: plugin("a", gmlearn_potentials=[Lonely])),
        FakePoint("same", lambda: plugin("b", gmlearn_losses=[_loss("odd")])),
    )
    with pytest.warns(gm.PluginWarning, match="same"):
        found.entries()


def test_a_hook_that_returns_no_list_is_named(monkeypatch):
    found = with_points(
        monkeypatch, FakePoint("empty", lambda: plugin("empty", gmlearn_potentials=None))
    )
    with pytest.warns(gm.PluginWarning):
        found.entries()
    assert "gmlearn_potentials" in found.failures["empty"]


# ------------------------------------------------------------------ manifests


def with_manifest(tmp_path, monkeypatch, content, package="gmlearn_far_away"):
    """A package on the path whose plugin module counts how often it is imported."""
    home = tmp_path / package
    home.mkdir()
    (home / "__init__.py").write_text("")
    (home / "gmlearn.json").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    imported = []

    def load():
        imported.append(package)
        return plugin(package, gmlearn_potentials=[Lonely], gmlearn_solvers=[_solver("far")])

    point = FakePoint("far", load)
    point.value = f"{package}.plugin"
    return with_points(monkeypatch, point), imported


def _solver(called):
    class Far(gm.MapSolver):
        name = called

        def run(self, problem):
            """Never reached."""

    return Far()


MANIFEST = '{"registers": {"potential": ["lonely"], "solver": ["far"]}, "serves": "own potentials"}'


def test_a_plugin_with_a_manifest_is_imported_when_its_name_is_asked_for(tmp_path, monkeypatch):
    found, imported = with_manifest(tmp_path, monkeypatch, MANIFEST)
    assert found.get("potential", "potts") is gm.Potts
    assert all(s.name != "far" for s in found.objects("solver"))
    with pytest.raises(gm.UnknownNameError, match="did you mean 'lonely'"):
        found.get("potential", "lonley")
    assert not imported
    assert found.get("potential", "lonely") is Lonely
    assert any(s.name == "far" for s in found.objects("solver"))
    assert imported == ["gmlearn_far_away"]


def test_an_imported_package_is_asked_about_models(tmp_path, monkeypatch):
    found, imported = with_manifest(tmp_path, monkeypatch, MANIFEST)
    monkeypatch.setitem(sys.modules, "gmlearn_far_away", types.ModuleType("gmlearn_far_away"))
    assert any(s.name == "far" for s in found.objects("solver"))
    assert imported


@pytest.mark.parametrize("content", [MANIFEST.replace("own potentials", "any model"), "{", "[]"])
def test_who_serves_any_model_or_says_nothing_useful_is_asked(tmp_path, monkeypatch, content):
    found, _ = with_manifest(tmp_path, monkeypatch, content)
    assert any(s.name == "far" for s in found.objects("solver"))


def test_listing_everything_imports_what_waits(tmp_path, monkeypatch):
    found, _ = with_manifest(tmp_path, monkeypatch, MANIFEST)
    assert {e.owner for e in found.entries()} == {"core", "far"}


def test_a_script_cannot_take_the_name_of_a_plugin_that_waits(tmp_path, monkeypatch):
    found, _ = with_manifest(tmp_path, monkeypatch, MANIFEST)
    with pytest.raises(gm.PluginError, match="by 'far' and by 'script'"):
        found.add(Other)


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("plugins/*/gmlearn.json")), ids=lambda p: p.parent.name
)
def test_a_shipped_manifest_says_what_the_plugin_registers(path):
    owner = path.parent.name.removeprefix("gmlearn_")
    said = read_manifest(path.parent.name)
    assert said is not None
    assert said.names == {(e.kind, e.name) for e in registry.entries() if e.owner == owner}
    assert said.as_text() == path.read_text()


def test_a_plain_call_imports_no_plugin():
    code = (
        "import sys, numpy as np, gmlearn as gm\n"
        "crf = gm.CRF(4, 2)\n"
        "crf.add_unary(np.zeros((4, 2)))\n"
        "crf.add(gm.Potts([[0, 1], [1, 2], [2, 3], [3, 0]]))\n"
        "gm.solve(crf)\n"
        "sys.exit(', '.join(n for n in sys.modules if n.startswith('gmlearn_')) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
