"""High-order potentials for gmlearn, each with an exact batched slave solver that needs no table.

===============  ==============================================  =======================
potential        energy of a clique of k variables with L labels time of its slave
===============  ==============================================  =======================
``pn_potts``     beta_l if all take one label l, else beta_max   O(k L)
``robust_pn``    linear in the number of deviating variables     O(k L), and a selection
``pattern``      listed labellings have a cost, others psi_max   O(k (P + L))
``cardinality``  any function of how many members take a label   O(k (L + log k))
``exactly_one``  one member takes a label                        O(k L)
``exactly_k``    a given number of members take a label          O(k (L + log k))
``at_most_k``    at most that number of members take a label     O(k (L + log k))
``value_sum``    any function of a sum of the labels' values      O(k T L), totals below T
``implication``  if one variable takes i, another must take j    O(L)
``label_cost``   a label used anywhere in a clique costs once    O(k 2^L), L <= 12
===============  ==============================================  =======================
"""

from gmlearn_highorder.cardinality import AtMost, Cardinality, CardinalitySlave, Exactly, ExactlyOne
from gmlearn_highorder.implication import Implication, ImplicationSlave
from gmlearn_highorder.label_cost import LabelCost, LabelCostSlave
from gmlearn_highorder.pattern import Pattern, PatternSlave
from gmlearn_highorder.pn_potts import PnPotts, PnPottsSlave
from gmlearn_highorder.robust_pn import RobustPn, RobustPnSlave
from gmlearn_highorder.value_sum import ValueSum, ValueSumSlave

__all__ = [
    "AtMost",
    "Cardinality",
    "CardinalitySlave",
    "Exactly",
    "ExactlyOne",
    "Implication",
    "ImplicationSlave",
    "LabelCost",
    "LabelCostSlave",
    "Pattern",
    "PatternSlave",
    "PnPotts",
    "PnPottsSlave",
    "RobustPn",
    "RobustPnSlave",
    "ValueSum",
    "ValueSumSlave",
]
