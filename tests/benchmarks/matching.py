"""Graph matching of random points against toulbar2 in the same time: ratios of energies in one run.

    python tests/benchmarks/matching.py [--sizes 10,20,30] [--seeds 2] [--seconds 1,5]

Both models of `primal_cases.matching` (distortions, and Koopmans-Beckmann) with an all-different
clique and the Hungarian method as its slave; toulbar2, where it is installed, gets the same energy
as tables of pairs with infinite diagonals. A ratio below 1 is better than toulbar2.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from primal_cases import matching, register

import gmlearn as gm


def by_pairs(crf: gm.CRF) -> gm.CRF:
    """The same energy without the all-different clique: equal labels are forbidden pair by pair."""
    n = crf.n_vars
    edges = crf.clique_blocks[0]
    tables = edges.pairwise({}).values.reshape(-1, n, n).copy()
    tables[:, np.arange(n), np.arange(n)] = np.inf
    other = gm.CRF(n, n).add_unary(crf.unary.reshape(n, n))
    other.add(gm.Pairwise(edges.variables, table=tables))
    return other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,20,30")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", default="1,5")
    options = parser.parse_args()
    register()
    rival = importlib.util.find_spec("pytoulbar2") is not None
    gm.solve(matching(0, 8), time_limit=1.0)  # compile
    print(f"{'model':18} n seed  limit   energy    bound  toulbar2  ratio")
    for kind in ("distortion", "koopmans-beckmann"):
        for n in map(int, options.sizes.split(",")):
            for seed in range(options.seeds):
                crf = matching(seed, n, kind)
                for limit in map(float, options.seconds.split(",")):
                    r = gm.solve(crf, time_limit=limit)
                    e = np.nan
                    if rival:
                        e = gm.solve(by_pairs(crf), solver="toulbar2", time_limit=limit).energy
                    print(
                        f"{kind:18} {n} {seed:4} {limit:6.1f} {r.energy:8.4f} {r.bound:8.4f} "
                        f"{e:9.4f} {r.energy / e:6.3f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
