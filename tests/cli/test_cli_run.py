"""``gmlearn run`` and ``gmlearn demo``: tables, files, failures, interruptions."""

from __future__ import annotations

import json
import re

import pytest

import gmlearn as gm
from gmlearn.cli import main
from gmlearn.registry import Registry, registry


def report(run: gm.Run) -> None:
    import matplotlib

    matplotlib.use("Agg")
    print("noise on stdout")
    run.value("answer", 42 + run.seed)
    run.table("Scores", ["method", "F"], [["learnt", 0.98765], ["plain", 0.5]])
    ax = gm.plot.axes()
    ax.plot([0, 1], [0, 1])
    run.figure("line.png", ax.figure, "a line")
    run.note("quick" if run.quick else "full")


COMPUTED: list[int] = []


def cells_once(run):
    """Four cells; the user stops the first time that the third is computed."""

    def square(i):
        COMPUTED.append(i)
        if COMPUTED.count(2) == 1 and i == 2:
            raise KeyboardInterrupt
        return [i * i, None]

    found = [run.cell(f"square-{i}", lambda i=i: square(i)) for i in range(4)]
    run.value("squares", [value for value, _ in found])


def interrupt_late(run: gm.Run) -> None:
    run.table("First part", ["a"], [[1]])
    raise KeyboardInterrupt


def interrupt_within(run: gm.Run) -> None:
    def rows():
        yield [1]
        yield [2]
        raise KeyboardInterrupt

    run.table("Squares", ["a"], rows())


def interrupt_early(run: gm.Run) -> None:
    raise KeyboardInterrupt


def fail(run: gm.Run) -> None:
    run.table("First part", ["a"], [[1]])
    raise ValueError("something inside")


def need_data(run: gm.Run) -> None:
    run.path("horses/all.npz")


EXPERIMENTS = [
    gm.Experiment("test-report", "writes everything", report),
    gm.Experiment("test-late", "stops late", interrupt_late),
    gm.Experiment("test-within", "stops within a table", interrupt_within),
    gm.Experiment("test-early", "stops early", interrupt_early),
    gm.Experiment("test-cells", "stops in its third cell, once", cells_once),
    gm.Experiment("test-fail", "fails", fail),
    gm.Experiment(
        "test-data",
        "reads data",
        need_data,
        data="Expected horses/all.npz; published by its authors.",
    ),
]


@pytest.fixture(autouse=True)
def experiments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for experiment in EXPERIMENTS:
        registry.add(experiment)


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_run_writes_files_and_prints_tables(tmp_path, capsys):
    assert main(["run", "test-report", "--quick", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    folder = tmp_path / "gmlearn-runs" / "test-report"
    assert names(tmp_path / "gmlearn-runs") == [
        f"test-report/{f}" for f in ("line.png", "report.html", "result.json", "table.md")
    ]
    result = json.loads((folder / "result.json").read_text())
    assert result["values"] == {"answer": 43} and result["quick"] is True and result["seed"] == 1
    assert "data:image/png;base64," in (folder / "report.html").read_text()
    assert (
        "0.9877" in out
        and "Scores" in out
        and "gmlearn-runs/test-report" in out
        and "line.png" in out
    )
    assert (folder / "line.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_says_how_to_repeat_the_run(tmp_path, capsys):
    assert main(["run", "test-report", "--quick", "--seed", "7", "--out", "out"]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["settings"] == {"quick": True, "seed": 7, "data": None}
    assert [step["ready"] for step in result["timings"]] == ["Scores", "line.png"]
    assert (
        0 <= result["timings"][0]["seconds"] <= result["timings"][1]["seconds"] <= result["seconds"]
    )
    for words in (
        "<td>seed</td><td>7</td>",
        "<td>settings</td><td>quick</td>",
        f"<td>gmlearn</td><td>{gm.__version__}</td>",
        "<td>numpy</td>",
        "<td>line.png</td><td>after ",
    ):
        assert words in page
    assert not re.findall(r"(?:src|href)=(?!'data:)", page), "everything is inside the page"


def test_json_is_all_that_stdout_holds(tmp_path, capsys):
    assert main(["run", "test-report", "--json", "--out", "here/there"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (
        result["values"] == {"answer": 42}
        and result["out"] == "here/there"
        and result["interrupted"] is False
    )
    assert (
        set(result["files"])
        == {"line.png", "report.html", "result.json", "table.md"}
        == set(names(tmp_path / "here/there"))
    )
    assert "noise on stdout" in said.err


def test_list_describes_all(capsys):
    assert main(["run", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("test-report ") and "writes everything" in line for line in lines)
    assert any(line.startswith("test-data ") and "needs --data" in line for line in lines)
    assert main(["run", "--list", "--json"]) == 0
    listed = {e["name"]: e for e in json.loads(capsys.readouterr().out)}
    assert (
        listed["test-data"]["data"].startswith("Expected horses")
        and listed["test-report"]["data"] is None
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["test-reprot"], ["did you mean 'test-report'"]),
        ([], ["--list"]),
        (["test-data"], ["--data DIR", "horses/all.npz", "published"]),
        (["test-data", "--data", "nowhere"], ["--data", "nowhere"]),
        (
            ["test-data", "--data", "."],
            ["found nothing", "Expected horses/all.npz; published by its authors."],
        ),
        (["test-report", "--out", "a-file/below"], ["--out", "a-file"]),
    ],
)
def test_bad_input_leaves_nothing_behind(tmp_path, arguments, words, capsys):
    (tmp_path / "a-file").write_text("")
    assert main(["run", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and all(word in err for word in words), err
    assert [p.name for p in tmp_path.iterdir()] == ["a-file"]


def test_failure_inside_is_code_1_and_keeps_the_last_good_run(tmp_path, capsys):
    assert main(["run", "test-report", "--out", "out"]) == 0
    before = {p: (tmp_path / "out" / p).read_bytes() for p in names(tmp_path / "out")}
    capsys.readouterr()
    assert main(["run", "test-fail", "--out", "out"]) == 1
    err = capsys.readouterr().err
    assert (
        err.count("\n") == 1
        and "test-fail" in err
        and "something inside" in err
        and "--debug" in err
    )
    assert {p: (tmp_path / "out" / p).read_bytes() for p in names(tmp_path / "out")} == before


def test_interrupt_keeps_what_was_finished_apart(tmp_path, capsys):
    assert main(["run", "test-late", "--out", "out"]) == 130
    said = capsys.readouterr()
    assert names(tmp_path / "out") == [
        "interrupted/report.html",
        "interrupted/result.json",
        "interrupted/table.md",
    ]
    assert "First part" in said.out and "out/interrupted" in said.err
    assert "Interrupted" in (tmp_path / "out/interrupted/table.md").read_text()


def test_interrupt_within_a_table_keeps_the_rows_that_were_finished(tmp_path, capsys):
    assert main(["run", "test-within", "--out", "out", "--json"]) == 130
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert tables == [{"title": "Squares", "header": ["a"], "rows": [[1], [2]]}]


def test_resume_computes_only_the_cells_that_are_missing(tmp_path, capsys):
    COMPUTED.clear()
    assert main(["run", "test-cells", "--out", "out"]) == 130
    assert names(tmp_path / "out") == ["cells/square-0.json", "cells/square-1.json"]
    assert main(["run", "test-cells", "--out", "out", "--resume", "--json"]) == 0
    assert COMPUTED == [0, 1, 2, 2, 3]
    assert json.loads(capsys.readouterr().out)["values"]["squares"] == [0, 1, 4, 9]
    assert not (tmp_path / "out/cells").exists()
    COMPUTED[:] = [2]
    assert main(["run", "test-cells", "--out", "out"]) == 0
    assert COMPUTED == [2, 0, 1, 2, 3]


def test_interrupt_with_nothing_finished_leaves_nothing(tmp_path, capsys):
    assert main(["run", "test-early"]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_demo_runs_the_experiment_of_that_name(tmp_path, capsys, monkeypatch):
    own = Registry(entry_points=False)
    own.add(gm.Experiment("demo", "the demo", report))
    monkeypatch.setattr("gmlearn.registry.registry", own)
    assert main(["demo", "--quick", "--out", "d"]) == 0
    assert "report.html" in capsys.readouterr().out and (tmp_path / "d/report.html").exists()


@pytest.mark.parametrize(
    ("failures", "word"),
    [({}, "not installed"), ({"clustering": "ImportError: no such"}, "no such")],
)
def test_demo_without_its_plugin_says_so(capsys, monkeypatch, failures, word):
    own = Registry(entry_points=False)
    own.failures.update(failures)
    monkeypatch.setattr("gmlearn.registry.registry", own)
    assert main(["demo"]) == 1
    err = capsys.readouterr().err
    assert "gmlearn_clustering" in err and word in err and err.count("\n") == 1


def test_experiments_have_options_of_their_own(capsys):
    import gmlearn as gm
    from gmlearn.cli.run import CommandError, own_options

    seen = []
    made = gm.Experiment(
        "x", "", lambda run: seen.append(run.choices), options={"kind": ("a", "b")}
    )
    assert own_options(made, ["--kind", "b"]) == {"kind": "b"}
    for words in (["--kind", "c"], ["--sort", "b"]):
        with pytest.raises(CommandError, match="run x"):
            own_options(made, words)
    made.run(gm.Run())
    assert seen == [{"kind": "a"}]
    with pytest.raises(ValueError, match="kind"):
        made.run(gm.Run(choices={"kind": "c"}))
