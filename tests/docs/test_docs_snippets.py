"""Every python block of the README and of the pages runs, and prints what it says."""

import importlib
import re

import docs_code
import pytest

from gmlearn.registry import registry

README = docs_code.ROOT / "README.md"
WITH_CODE = [
    p
    for p in sorted(docs_code.PAGES.rglob("*.md"))
    if docs_code.python_of(p) and p.name != "faq.md"
]


@pytest.fixture(autouse=True)
def registry_as_before():
    """What a page registers is forgotten after it."""
    entries, plugins = (
        {(e.kind, e.name): e for e in registry.entries()},
        set(registry._manager.get_plugins()),
    )
    yield
    registry._entries.clear()
    registry._entries.update(entries)
    for plugin in set(registry._manager.get_plugins()) - plugins:
        registry._manager.unregister(plugin)


@pytest.mark.parametrize("path", WITH_CODE, ids=lambda p: p.stem)
def test_code_of_a_page_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "documentation"}
    for code in docs_code.python_of(path):
        docs_code.assert_same_output(docs_code.promised(code), docs_code.run(code, names))


def test_the_readme_keeps_its_promises(tmp_path, monkeypatch):
    """Define, train with hidden labels, predict with a proof, evaluate; then a potential and its
    slave, which pass the kit.
    """
    monkeypatch.chdir(tmp_path)
    first, own = docs_code.python_of(README)
    names: dict = {"__name__": "documentation"}
    docs_code.assert_same_output(docs_code.promised(first), docs_code.run(first, names))
    assert names["answer"].status == "optimal" and names["answer"].gap < 1e-6
    assert all(sample.latent for sample in names["samples"])
    assert names["together"] < 0.1 * names["alone"]
    assert lines_of(first) <= 36
    docs_code.assert_same_output(docs_code.promised(own), docs_code.run(own, names))
    words = [sample.labels for sample in names["samples"]]
    assert all(x[:8].sum() % 2 == x[4:].sum() % 2 == 0 for x in words)
    assert names["model"].weights["parity"] > 0
    assert lines_of(own) <= 42


@pytest.mark.parametrize("path", [README, *WITH_CODE], ids=lambda p: p.stem)
def test_code_fits_the_page(path):
    long = [
        line for code in docs_code.python_of(path) for line in code.splitlines() if len(line) > 88
    ]
    assert not long, "\n".join(long)


def lines_of(code):
    """Lines of code, without comments and blank lines."""
    return sum(bool(line.strip()) and not line.startswith("#") for line in code.splitlines())


def test_the_walkthrough_trains_a_better_decoder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tour = docs_code.python_of(docs_code.PAGES / "authors" / "walkthrough.md")
    names: dict = {"__name__": "documentation"}
    for code in tour:
        docs_code.run(code, names)
    assert "gm.testing.check(ParitySlave())" in tour[0]
    assert names["after"] < 0.5 * names["before"]
    lines = sum(bool(line.strip()) for line in tour[0].splitlines())
    assert lines <= 40, "a custom potential and its slave take about forty lines"


def test_the_two_commands_stand_in_the_readme():
    text = README.read_text(encoding="utf-8")
    assert "\n    python -m pip install . && gmlearn demo\n" in text
    assert "\n    python -m pip install -e '.[test]' && python -m pytest\n" in text


def test_the_table_of_plugins_names_what_they_export():
    rows = re.findall(
        r"^\| `(gmlearn_\w+)` \|[^|]*\|([^|]*)\|$", README.read_text("utf-8"), re.MULTILINE
    )
    packages = sorted(
        p.name
        for p in (docs_code.ROOT / "plugins").glob("gmlearn_*")
        if (p / "__init__.py").exists()
    )
    assert sorted(name for name, _ in rows) == packages
    for package, called in rows:
        for name in re.findall(r"`([A-Za-z_]+)`", called):
            assert name in importlib.import_module(package).__all__


def test_core_row_counts_the_solvers():
    from gmlearn.builtin import gmlearn_solvers

    assert f"{len(gmlearn_solvers())} MAP solvers" in README.read_text("utf-8")


def test_the_guide_names_every_solver_and_optimiser_of_the_core():
    guide = (docs_code.PAGES / "guide" / "choose.md").read_text("utf-8")
    for entry in registry.entries():
        if entry.owner == "core" and entry.kind in ("solver", "optimizer"):
            assert f"`{entry.name}`" in guide or f'="{entry.name}"' in guide, entry.name


def test_the_guide_names_every_high_order_potential():
    guide = (docs_code.PAGES / "guide" / "define.md").read_text("utf-8")
    for entry in registry.entries("potential"):
        if entry.owner == "highorder":
            assert f'"{entry.name}"' in guide
