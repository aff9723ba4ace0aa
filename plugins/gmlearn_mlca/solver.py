"""Partitions of low k-means energy under a metric, with the spectral bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg

import gmlearn as gm
from gmlearn_mlca.assign import fill_empty, single_moves
from gmlearn_mlca.potentials import KMeansEnergy, small_problem
from gmlearn_mlca.slaves import SpectralGroup, spectral_group, why_not_spectral
from gmlearn_mlca.spectral import ReducedDataset, spectral_minimum

#: joint states up to which a model is left to enumeration, which is exact
_FEW_STATES = 2**12
#: runs of k-means, each from a seed of its own
_RUNS = 10
#: share of a time limit for moves of single rows before k-means, from the unary optimum and from
#: random labels
_FIRST_SHARE = 0.25


class SpectralSolver(gm.MapSolver):
    """k-means on the eigenvectors of the spectral slave, then moves of single rows.

    The bound is that of the slave over the projectors that keep the vector of ones, as those of
    partitions do, and of the least unary costs.

    For models of one `KMeansEnergy`, with or without a `PartitionDistance`, whose datasets share no
    variable. Unary costs (evidence too) count in the moves. ``solver="auto"`` leaves such models to
    it, but for those of a few thousand joint states.
    """

    name = "spectral"

    def refuses(self, crf: gm.CRF) -> str | None:
        reason = why_not_spectral(crf)
        if reason is None:
            members = spectral_energy(crf).members
            if len(np.unique(members)) < len(members):
                return "datasets share variables"
        return reason

    def claims(self, crf: gm.CRF, w: Mapping[str, np.ndarray]) -> bool:
        return self.refuses(crf) is None and np.log(crf.n_states).sum() > np.log(_FEW_STATES)

    def run(self, problem: gm.Problem) -> None:
        crf = problem.crf
        group = spectral_group(crf)
        relaxed = group.solve(np.zeros(0), group.prepare(problem.w))
        datasets = [Dataset.of(group, m, problem.w) for m in range(group.n)]
        costs = crf.unary_costs(problem.w)
        least = np.minimum.reduceat(costs, crf.offsets[:-1]).sum()
        problem.raise_bound(sum(d.bound() for d in datasets) + least + crf.constant)
        labels = np.array([u.argmin() for u in np.split(costs, crf.offsets[1:-1])])
        members = group.energy.members
        slots = crf.offsets[members][:, None] + np.arange(group.energy.n_clusters)

        def improve_all(found: np.ndarray) -> None:
            for m, dataset in enumerate(datasets):
                part = group.part(m)
                improve(found[part], dataset, costs[slots[part]], lambda: problem.time_left <= 0.0)
            labels[members] = found

        if problem.limited:  # to load k-means may take longer than the limit
            with problem.budget(_FIRST_SHARE):
                rng = np.random.default_rng(problem.options.seed)
                found = labels[members]
                for _ in range(_RUNS):
                    for m in range(group.n):
                        fill_empty(found[group.part(m)], costs[slots[group.part(m)]])
                    improve_all(found)
                    problem.offer(labels, "single moves")
                    if problem.stop():
                        break
                    found = rng.integers(0, group.energy.n_clusters, len(members))
        for run in range(_RUNS):
            found = group.round_labels(relaxed.labels, 1, problem.options.seed + run)
            improve_all(found)
            problem.offer(labels, "k-means on eigenvectors")
            problem.iterations += 1
            problem.log()
            if problem.stop(_RUNS):
                break

    def examples(self, rng: np.random.Generator) -> list[tuple[gm.CRF, dict[str, np.ndarray]]]:
        """Two small datasets, free and with evidence."""
        crf, _ = small_problem(rng)
        metric = {"metric": np.diag(rng.random(2))}
        return [(crf, metric), (crf.clamp({0: 1, 3: 0}), metric)]


def spectral_energy(crf: gm.CRF) -> KMeansEnergy:
    """The k-means energy of a model that has one."""
    return next(b for b in crf.clique_blocks if isinstance(b, KMeansEnergy))


@dataclass(frozen=True)
class Dataset:
    r"""One dataset, whose energy is :math:`-\sum_c s_c^T F s_c / n_c - c_0`, s_c being the sum of
    the n_c rows of cluster c.

    rows : [X J] (n, d + p).   form : F = diag(M, -2 I), symmetric.   constant : c_0 = k plus the
    number of true clusters, 0 where there is no truth.   n_clusters : k.
    """

    rows: np.ndarray
    form: np.ndarray
    constant: float
    n_clusters: int

    @classmethod
    def of(cls, group: SpectralGroup, m: int, w: Mapping[str, np.ndarray]) -> Dataset:
        """Dataset m; -||C(x) - C||^2 = 2 <C(x), C> - k - ||C||^2, as in `spectral_minimum`."""
        X, J = group.factors(m)
        M, k = w[group.energy.weight], group.energy.n_clusters
        form = scipy.linalg.block_diag((M + M.T) / 2.0, -2.0 * np.eye(J.shape[1]))
        constant = k + float(np.any(J, axis=0).sum()) if J.shape[1] else 0.0
        return cls(np.hstack([X, J]), form, constant, k)

    def bound(self) -> float:
        """The least energy over projectors of rank k that keep the vector of ones."""
        mean = self.rows.mean(axis=0)
        value = -self.constant - len(self.rows) * float(mean @ self.form @ mean)
        if self.n_clusters > 1:
            centred = self.rows - mean
            nothing = np.zeros((len(self.rows), 0))
            reduced = ReducedDataset.from_data(centred, nothing, self.n_clusters - 1)
            # the other directions lie in the n - 1 dimensions that are orthogonal to the ones
            reduced = dataclasses.replace(reduced, n_samples=len(self.rows) - 1)
            value += spectral_minimum(reduced, self.form).value
        return value


def improve(
    labels: np.ndarray, dataset: Dataset, costs: np.ndarray, stop: Callable[[], bool]
) -> None:
    """Lower the energy of labels (n,), in place; costs (n, k) are the unary ones."""
    from scipy.optimize import linear_sum_assignment

    if costs.any():  # clusters have no names of their own: take those that cost least
        forbidding = 1.0 + np.abs(costs[np.isfinite(costs)]).sum()
        member = labels == np.arange(costs.shape[1])[:, None]
        price = member @ np.where(np.isfinite(costs), costs, forbidding)
        labels[:] = linear_sum_assignment(price)[1][labels]
        forbidden = np.isinf(costs[np.arange(len(labels)), labels])
        labels[forbidden] = costs[forbidden].argmin(axis=1)
        fill_empty(labels, costs)
    single_moves(labels, dataset.rows, dataset.form, costs, stop)
