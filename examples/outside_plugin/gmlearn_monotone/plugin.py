"""The hooks of gmlearn_monotone."""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_potentials():
    from gmlearn_monotone import Monotone

    return [Monotone]


@gm.hookimpl
def gmlearn_slave_solvers():
    from gmlearn_monotone import MonotoneSlave

    return [MonotoneSlave()]
