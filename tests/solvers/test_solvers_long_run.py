"""A thousand models in one process: memory stays flat, threads end, and the same seed gives the
same answers.
"""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest

import gmlearn as gm

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * PAGE


def mixed_model(seed: int) -> gm.CRF:
    """Chains, grids, loops, tables, cardinalities and hard constraints in turn, of 4 to 20
    variables.
    """
    rng, kind = np.random.default_rng(seed), seed % 6
    n, labels = int(rng.integers(4, 9)), int(rng.integers(2, 4))
    if kind == 1:
        n = 20
    crf = gm.CRF(n, labels).add_unary(rng.normal(size=(n, labels)))
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    if kind == 1:
        crf.add(gm.Potts(gm.grid_edges(4, 5), rng.random(31)))
    elif kind == 2:
        crf.add(gm.Table(np.vstack([chain, [[0, n - 1]]]), rng.normal(size=(n, labels, labels))))
    else:
        crf.add(gm.Table(chain, rng.normal(size=(n - 1, labels, labels))))
    if kind == 3:
        crf.add(gm.Table([[0, 1, 2], [1, 2, 3]], rng.normal(size=(2, labels, labels, labels))))
    if kind == 4:
        crf.add("cardinality", cliques=[np.arange(n)], costs=rng.normal(size=n + 1), label=1)
    if kind == 5:
        crf.add(gm.Table(chain[:2], np.where(rng.random((2, labels, labels)) < 0.2, np.inf, 0.0)))
    return crf


def answers(seeds: range) -> list[tuple[float, float, bytes]]:
    """Energy, bound and labels of each model."""
    found = []
    for seed in seeds:
        result = gm.solve(mixed_model(seed), max_iter=30)
        found.append((result.energy, result.bound, np.asarray(result.labels).tobytes()))
    return found


@pytest.mark.filterwarnings("ignore")
def test_a_thousand_models():
    before = threading.active_count()
    first = answers(range(200))  # kernels are compiled, caches filled
    start = resident()
    tracemalloc.start()
    answers(range(200, 300))
    allocated = tracemalloc.get_traced_memory()[0]
    rest = answers(range(300, 400))
    gc.collect()
    grown = (
        tracemalloc.get_traced_memory()[0]
        - allocated
        - sum(len(labels) + 200 for *_, labels in rest)
    )
    tracemalloc.stop()
    for _ in range(3):
        again = answers(range(200))
    assert again == first
    assert grown < 2**18, f"{grown} bytes kept by 100 models"
    assert resident() - start < 24 * 2**20, f"{resident() - start} bytes more after 800 models"
    assert threading.active_count() <= before


@pytest.mark.parametrize(("gap", "times"), [(1e-3, 5.0), (1e-4, 5.5)])
def test_a_gap_on_a_grid_takes_about_five_times_the_memory_of_its_unary_costs(gap, times):
    costs = np.random.default_rng(0).normal(size=(96, 128, 16))
    crf = gm.CRF(96 * 128, 16).add_unary(costs.reshape(-1, 16))
    crf.add(gm.Potts(gm.grid_edges(96, 128), 0.5))
    gm.solve(crf, gap=gap)  # kernels are loaded
    tracemalloc.start()
    r = gm.solve(crf, gap=gap)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert r.status == gm.Status.WITHIN_GAP and most <= times * crf.unary.nbytes
