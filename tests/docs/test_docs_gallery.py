"""The gallery shows every example, the performance page every measurement."""

import ast
import json
import re
import sys

import docs_code
import pytest

sys.path.insert(0, str(docs_code.ROOT / "docs"))
sys.path.insert(0, str(docs_code.ROOT / "tests" / "benchmarks"))
import build_gallery
import build_performance
import compare

del sys.path[:2]


def test_every_example_says_what_to_see():
    assert build_gallery.scripts()
    for script in build_gallery.scripts():
        title, text = build_gallery.title_and_text(script)
        assert 10 < len(title) < 120, script.name
        assert len(text) > 60, script.name
        ast.parse(script.read_text("utf-8"))


def test_the_gallery_shows_every_example():
    text = build_gallery.index()
    for script in build_gallery.scripts():
        assert f"({script.stem}.md)" in text and f"({script.stem}.png)" in text
        assert f"examples/{script.name}" in build_gallery.page(script)
    for kept in build_gallery.GALLERY.glob("plot_*"):
        assert (build_gallery.EXAMPLES / f"{kept.stem}.py").exists(), (
            f"{kept.name} belongs to no example"
        )


def test_every_example_has_its_picture_in_the_gallery():
    missing = sorted(
        {s.stem for s in build_gallery.scripts()}
        - {p.stem for p in build_gallery.GALLERY.glob("plot_*.png")}
    )
    assert not missing, (
        f"run: python docs/build_gallery.py {' '.join(m.removeprefix('plot_') for m in missing)}"
    )


def test_the_performance_page_is_made_of_the_measurements():
    text = build_performance.page()
    measured = list(build_performance.MEASUREMENTS.glob("*.txt"))
    assert measured
    for output in measured:
        assert output.read_text("utf-8").rstrip() in text


def test_the_table_of_comparisons_is_made_of_the_numbers(tmp_path, monkeypatch):
    made = build_performance.comparisons()
    table = made.table()
    assert len(table.splitlines()) == len(made.COMPARISONS) + 2
    for row in made.COMPARISONS:
        assert f"| {row.what} | {row.against} |" in table
        assert row.ratio() > 0 and row.command().startswith("python tests/benchmarks/")
    assert made.chart().count("<rect") == len(made.COMPARISONS)
    numbers = {"command": "python one.py", "rows": [{"what": "ours / theirs #", "numbers": [4.0]}]}
    (tmp_path / "one.json").write_text(json.dumps(numbers))
    monkeypatch.setattr(made, "MEASUREMENTS", tmp_path)
    assert made.Comparison("one", "ours", 0, "", "", inverse=True).ratio() == 0.25
    with pytest.raises(LookupError, match="has no line 'theirs'"):
        made.Comparison("one", "theirs", 0, "", "").ratio()


def test_a_measurement_names_its_command():
    for text in build_performance.MEASUREMENTS.glob("*.txt"):
        head, script = (
            text.read_text("utf-8").splitlines()[0],
            build_performance.benchmark(text.stem),
        )
        assert head.startswith(f"$ python tests/benchmarks/{script}.py")
        assert (build_performance.BENCHMARKS / f"{script}.py").exists()


def test_one_command_measures_every_benchmark():
    scripts = {p.stem for p in build_performance.BENCHMARKS.glob("*.py")}
    assert set(build_performance.RECIPES) == scripts - {"compare"}


def test_a_measurement_hides_where_the_data_was(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text('"""Says where."""\nimport sys\nprint(len(sys.argv[2]))\n')
    monkeypatch.setattr(build_performance, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(build_performance, "MEASUREMENTS", tmp_path)
    build_performance.measure("one", "--data DIR", "/some/where")
    head, printed = (tmp_path / "one.txt").read_text("utf-8").splitlines()
    assert head.startswith("$ python tests/benchmarks/one.py --data DIR ")
    assert printed == "11"


@pytest.mark.slow
@pytest.mark.parametrize("script", build_gallery.scripts(), ids=lambda p: p.stem)
def test_an_example_runs_in_quick_mode(script, tmp_path, monkeypatch):
    monkeypatch.setattr(build_gallery, "GALLERY", tmp_path)
    build_gallery.run(script, "--quick")
    assert 1000 < (tmp_path / f"{script.stem}.png").stat().st_size < 150_000
    printed = (tmp_path / f"{script.stem}.txt").read_text("utf-8")
    assert printed
    assert not re.search(r"\b(nan|inf)\b", printed), printed


@pytest.mark.slow
@pytest.mark.parametrize("script", build_gallery.scripts(), ids=lambda p: p.stem)
def test_an_example_runs(script, tmp_path, monkeypatch):
    monkeypatch.setattr(build_gallery, "GALLERY", tmp_path)
    build_gallery.run(script)
    assert (tmp_path / f"{script.stem}.png").stat().st_size < 150_000


def test_two_results_are_compared_line_by_line(tmp_path, capsys):
    old = {"rows": build_performance.rows("grid 20x20: 2.0 s, ratio 3.5\nno numbers")}
    new = {"rows": build_performance.rows("grid 20x20: 2.1 s, ratio 7.0")}
    for name, content in {"old": old, "new": new}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    paths = [str(tmp_path / "old.json"), str(tmp_path / "new.json")]
    assert compare.main(paths) == 1
    shown = capsys.readouterr().out
    assert "x 2.00" in shown and "1 numbers changed" in shown
    assert compare.main([paths[0], paths[0]]) == 0
