"""The gallery shows every example, the performance page every measurement."""

import ast
import re
import sys

import docs_code
import pytest

sys.path.insert(0, str(docs_code.ROOT / "docs"))
import build_gallery
import build_performance

sys.path.pop(0)


def test_every_example_says_what_to_see():
    assert build_gallery.scripts()
    for script in build_gallery.scripts():
        title, text = build_gallery.title_and_text(script)
        assert 10 < len(title) < 120, script.name
        assert len(text) > 60, script.name
        ast.parse(script.read_text("utf-8"))


def test_the_gallery_shows_every_example():
    text = build_gallery.page()
    for script in build_gallery.scripts():
        assert f'"examples/{script.name}"' in text
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


def test_a_measurement_names_its_command():
    for text in build_performance.MEASUREMENTS.glob("*.txt"):
        head, script = (
            text.read_text("utf-8").splitlines()[0],
            build_performance.benchmark(text.stem),
        )
        assert head.startswith(f"$ python tests/benchmarks/{script}.py")
        assert (build_performance.BENCHMARKS / f"{script}.py").exists()


def test_one_command_measures_every_benchmark():
    assert set(build_performance.RECIPES) == {
        p.stem for p in build_performance.BENCHMARKS.glob("*.py")
    }


def test_a_measurement_hides_where_the_data_was(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text('"""Says where."""\nimport sys\nprint(len(sys.argv[2]))\n')
    monkeypatch.setattr(build_performance, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(build_performance, "MEASUREMENTS", tmp_path)
    build_performance.measure("one", "--data DIR", "/some/where")
    head, printed = (tmp_path / "one.txt").read_text("utf-8").splitlines()
    assert head.startswith("$ python tests/benchmarks/one.py --data DIR ")
    assert printed == "11"


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
