r"""What takes the place of the log-partition in training at a temperature T.

The negative log-likelihood of a sample is :math:`E(x^k) + T\log\sum_x e^{-E(x)/T}` (with a loss,
the soft hinge). Its log-partition is

* bounded from above by soft slaves at tree-reweighted temperatures (``trw``): exact where one slave
  holds each connected part of the model, and convex together with the multipliers;
* replaced by the sum over all cliques, and single variables, of their own (``piecewise``: Sutton
  and McCallum 2005), an upper bound too, without multipliers;
* or every variable is predicted from all others, :math:`\sum_v -\log p(x_v \mid x_{-v})`
  (``pseudo``: Besag 1975), which needs no inference at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gmlearn.decompositions.base import Slaves, clique_groups
from gmlearn.master import Dual
from gmlearn.master.reweighting import ReweightedSlaves
from gmlearn.master.temperatures import TemperedSlaves, is_disjoint, split_by_weight
from gmlearn.model.conditionals import changed_cliques
from gmlearn.model.crf import CRF
from gmlearn.slaves import FreeGroup

if TYPE_CHECKING:
    from gmlearn.learn.batch import SampleBatch


class Likelihood(ABC):
    """The log-partition part of one batch.

    slaves : of the loss-augmented model, whose multipliers the optimiser moves; of samples with
        different `shares`, in groups that can weigh them.
    coupled : are there multipliers?   kind : what the objective is, in a few words.
    reweighted : the slaves with weights that the optimiser moves as well; None where it does not.
    """

    name: ClassVar[str] = ""
    slaves: Slaves
    coupled = False
    reweighted: ReweightedSlaves | None = None
    kind: str = ""

    def __init__(self, crf: CRF, slaves: Slaves, shares: np.ndarray | None = None):
        self.slaves = slaves

    @abstractmethod
    def evaluate(
        self, batch: SampleBatch, dual: Dual, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(soft minima (n_slaves,), whose sum is minus T times the log-partition, marginals (D,),
        expected features (P,) of everything but the unary costs, each slave's with its share) at
        the dual costs `theta` (D,).
        """


class TreeReweighted(Likelihood):
    """Soft slaves at temperatures rho_i T, which are learnt where each slave holds a whole
    sample.
    """

    name = "trw"
    coupled = True

    def __init__(self, crf: CRF, slaves: Slaves, shares: np.ndarray | None = None):
        self.tempered = TemperedSlaves(split_by_weight(slaves, shares, soft=True))
        self.slaves = self.tempered.slaves
        if self.tempered.weighted:
            self.reweighted = ReweightedSlaves(self.tempered, shares)
        self.kind = "exact" if self.tempered.exact else "upper bound"

    def evaluate(
        self, batch: SampleBatch, dual: Dual, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = self.tempered.round(dual, theta, batch.temperature, batch.slave_shares)
        features = np.zeros(batch.layout.size)
        for own in found.features:
            batch.layout.join(own, features)
        return found.values, found.ind, features


class Piecewise(Likelihood):
    """Every clique, and every variable, on its own."""

    name = "piecewise"
    kind = "piecewise"

    def __init__(self, crf: CRF, slaves: Slaves, shares: np.ndarray | None = None):
        cliques = clique_groups(crf, crf.clique_blocks, "log_partition")
        every = Slaves(crf, [FreeGroup(np.arange(crf.n_vars), crf.offsets), *cliques])
        self.slaves = split_by_weight(every, shares, soft=True)

    def evaluate(
        self, batch: SampleBatch, dual: Dual, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        slaves, features = self.slaves, np.zeros(batch.layout.size)
        unary = dual.unary_share * np.maximum(slaves.count, 1.0)
        single, minima = np.zeros(slaves.n_coords), []
        factors = slaves.by_group(batch.slave_shares)
        groups = zip(slaves.groups, dual.prepared, factors)
        for number, (group, prepared, factor) in enumerate(groups):
            costs = unary[group.coords] if number == 0 else np.zeros(len(group.coords))
            found = group.soft_features(costs, prepared, batch.temperature, factor)
            minima.append(found.value)
            batch.layout.join(found.features, features)
            if number == 0:
                single[group.coords] = found.marginals
        return np.concatenate(minima), slaves.spread(single), features


class PseudoLikelihood(Likelihood):
    """Every variable given all others at their true labels."""

    name = "pseudo"
    kind = "pseudo-likelihood"

    def __init__(self, crf: CRF, slaves: Slaves, shares: np.ndarray | None = None):
        self.slaves = Slaves(crf, [FreeGroup(np.arange(crf.n_vars), crf.offsets)])

    def evaluate(
        self, batch: SampleBatch, dual: Dual, theta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        crf, truth, w = self.slaves.crf, batch.truth, batch.layout.split(batch.weights)
        costs = dual.unary_share.copy()
        changed = [changed_cliques(b, truth, crf.offsets) for b in crf.clique_blocks]
        for part, labels, coords in changed:
            costs += np.bincount(coords, part.energy(labels, w), len(costs))
        group = self.slaves.groups[0]
        found = group.log_partition(costs, None, batch.temperature)  # type: ignore[attr-defined]
        at = crf.offsets[:-1] + truth
        excess = found.marginals.copy()
        excess[at] -= 1.0
        excess = batch.weighed(excess)
        features = batch.truth_features.copy()
        for part, labels, coords in changed:
            batch.layout.join(part.features(labels, excess[coords]), features)
        batch.layout.join(crf.unary_features(excess), features)
        # what `SampleBatch.soft_vertex` adds for the unary costs at these marginals
        batch.layout.join(crf.unary_features(-batch.weighed(found.marginals)), features)
        value = found.value - costs[at]
        value[crf.parts[:-1]] += batch.truth_energies(batch.weights) - batch.constants
        return value, found.marginals, features


LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.name: kind for kind in (TreeReweighted, Piecewise, PseudoLikelihood)
}


def objective_kind(batch: SampleBatch) -> str:
    """What the objective of a batch is: "exact", "upper bound", or the name of what replaces the
    likelihood. Without a temperature, the same of the hinge.
    """
    if batch.likelihood is not None:
        return batch.likelihood.kind
    return "exact" if is_disjoint(batch.dual.slaves) else "upper bound"
