"""Hooks of the point-set plugin."""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_potentials():
    from .one_to_one import OneToOne

    return [OneToOne]


@gm.hookimpl
def gmlearn_slave_solvers():
    from .one_to_one import MatchingSlave

    return [MatchingSlave()]


@gm.hookimpl
def gmlearn_experiments():
    def pointsets(run: gm.Run) -> None:
        from .experiments import pointsets as function

        function(run)

    return [
        gm.Experiment(
            name="pointsets",
            function=pointsets,
            summary="Cluster point sets with a matching distance: Gold et al.'s experiments, and "
            "digits",
        )
    ]
