"""What gmlearn_structured registers."""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_experiments() -> list[gm.Experiment]:
    return [
        gm.Experiment(
            "letters",
            "Words letter by letter and by chains, on generated or (with --data) handwritten ones",
            _letters,
        ),
        gm.Experiment(
            "scene",
            "Sets of labels: independent, on a tree, on the full graph; generated or with --data",
            _scene,
        ),
    ]


def _letters(run: gm.Run) -> None:
    from gmlearn_structured.letters_experiment import run_letters

    run_letters(run)


def _scene(run: gm.Run) -> None:
    from gmlearn_structured.scene_experiment import run_scene

    run_scene(run)
