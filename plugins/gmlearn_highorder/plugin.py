"""The hooks of gmlearn_highorder: potentials by name, and the slave solvers that ``auto`` finds
for them.
"""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_potentials():
    import gmlearn_highorder as h

    return [
        h.PnPotts,
        h.RobustPn,
        h.Pattern,
        h.Cardinality,
        h.Exactly,
        h.ExactlyOne,
        h.AtMost,
        h.Implication,
        h.LabelCost,
        h.ValueSum,
    ]


@gm.hookimpl
def gmlearn_slave_solvers():
    import gmlearn_highorder as h

    return [
        h.PnPottsSlave(),
        h.RobustPnSlave(),
        h.PatternSlave(),
        h.CardinalitySlave(),
        h.ImplicationSlave(),
        h.LabelCostSlave(),
        h.ValueSumSlave(),
    ]
