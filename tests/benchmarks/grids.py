"""MAP on generated problems: time to a relative dual gap, as ratios to gco-wrapper's expansion in
the same run.

    python tests/benchmarks/grids.py [--only P1,P2 | --only gaps] [--repeat 3]

P1 Potts 100x100x5, P2 truncated linear 60x60x16, P3 frustrated binary 50x50 with N(0,1) costs of
one label (P3b: of both labels, which makes the couplings weaker and the energy about -2280 instead
of -1950), P4 50x50x5 with all 3x3 Pn-Potts cliques, P5 600 variables with 700 random ternary
tables; a binary 200x200 grid against PyMaxflow called directly; one TRW-S pass on a Potts grid
384x288x16 against a copy of the memory that it must touch; the first call of a kernel in a new
process. CPU seconds of one thread. Costs are drawn with numpy.random.default_rng(0).

``--only gaps``: Potts grids and random graphs of 100,000 variables, 10^6 edges and 4 labels with
gap=1e-3, gap=1e-4 and the default, each in a process of its own: time and energy against gco, and
memory in units of the unary costs' bytes. ``--largest`` adds a grid 1000x1000x8, where gco takes
minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

import gmlearn as gm

PROBLEMS = {
    "P1": ("trws", 1e-5),
    "P2": ("auto", 1e-5),
    "P3": ("trws", 1e-5),
    "P3b": ("trws", 1e-5),
    "P4": ("srmp", 1e-5),
    "P5": ("bcfw", 1e-3),
}
#: optimum of the LP relaxation by HiGHS's interior point method (13 s)
LP = {"P5": -1292.2392103}


def problem(name: str) -> gm.CRF:
    """One of the five problems."""
    rng = np.random.default_rng(0)
    if name == "P1":
        crf = gm.CRF(10000, 5).add_unary(rng.normal(size=(10000, 5)))
        crf.add(gm.Potts(gm.grid_edges(100, 100), 0.5))
    elif name == "P2":
        crf = gm.CRF(3600, 16).add_unary(rng.normal(size=(3600, 16)))
        crf.add(gm.Truncated(gm.grid_edges(60, 60), 4.0, contrast=0.5))
    elif name in ("P3", "P3b"):
        edges = gm.grid_edges(50, 50)
        costs = (
            rng.normal(size=(2500, 2))
            if name == "P3b"
            else np.stack([np.zeros(2500), rng.normal(size=2500)], axis=1)
        )
        crf = gm.CRF(2500, 2).add_unary(costs)
        crf.add(gm.Potts(edges, rng.choice([-1.0, 1.0], size=len(edges))))
    elif name == "P4":
        cliques = gm.grid_cliques(50, 50, 3, 3)
        crf = gm.CRF(2500, 5).add_unary(rng.normal(size=(2500, 5)))
        crf.add(
            "pn_potts",
            cliques=cliques,
            beta=np.zeros((len(cliques), 5)),
            beta_max=np.ones(len(cliques)),
        )
    else:
        crf = gm.CRF(600, 4).add_unary(rng.normal(size=(600, 4)))
        cliques = np.array([rng.choice(600, 3, replace=False) for _ in range(700)])
        crf.add(gm.Table(cliques, rng.normal(size=(700, 4, 4, 4))))
    return crf


def gco_seconds(repeat: int) -> float:
    """CPU seconds of gco-wrapper's expansion on P1: the unit."""
    import gco

    unary = np.random.default_rng(0).normal(size=(100, 100, 5))
    times = []
    for _ in range(repeat):
        start = time.process_time()
        gco.cut_grid_graph_simple(unary, 0.5 * (1.0 - np.eye(5)), n_iter=-1)
        times.append(time.process_time() - start)
    return min(times)


def seconds_to_gap(
    crf: gm.CRF, solver: str, best: float, gap: float, repeat: int
) -> tuple[float, gm.Result]:
    """CPU seconds until the bound is within `gap` of `best`, relatively: a run that is stopped
    there.
    """
    rounds = (
        next(
            i
            for i, b in enumerate(gm.solve(crf, solver=solver).history.bound)
            if b >= best - gap * abs(best)
        )
        + 1
    )
    times = []
    for _ in range(repeat):
        start = time.process_time()
        result = gm.solve(crf, solver=solver, max_iter=rounds)
        times.append(time.process_time() - start)
    return min(times), result


def compare_maxflow(repeat: int) -> None:
    import maxflow

    rng = np.random.default_rng(0)
    unary = rng.normal(size=(200, 200, 2))
    crf = gm.CRF(40000, 2).add_unary(unary.reshape(-1, 2))
    crf.add(gm.Potts(gm.grid_edges(200, 200), 0.5))
    ours, direct = [], []
    for _ in range(repeat):
        start = time.process_time()
        result = gm.solve(crf)
        ours.append(time.process_time() - start)
        start = time.process_time()
        graph = maxflow.Graph[float]()
        nodes = graph.add_grid_nodes((200, 200))
        graph.add_grid_edges(nodes, 0.5)
        graph.add_grid_tedges(nodes, unary[..., 1], unary[..., 0])
        graph.maxflow()
        segments = graph.get_grid_segments(nodes)
        direct.append(time.process_time() - start)
    assert abs(crf.energy(segments.ravel().astype(int)) - result.energy) < 1e-6
    print(
        f"binary 200x200: {result.status}, {min(ours):.3f} s, PyMaxflow directly "
        f"{min(direct):.3f} s: "
        f"{min(ours) / min(direct):.2f}x"
    )


def compare_copy(repeat: int) -> None:
    from gmlearn.solvers.trws import make_messages

    height, width, size = 288, 384, 16
    crf = gm.CRF(height * width, size).add_unary(
        np.random.default_rng(0).normal(size=(height * width, size))
    )
    crf.add(gm.Potts(gm.grid_edges(height, width), 0.5))
    messages = make_messages(crf, {})
    touched = np.zeros(7 * crf.n_coords)  # unary, four messages read, two written
    passes, copies = [], []
    for k in range(2 * repeat + 2):
        start = time.process_time()
        messages.half(k % 2 == 0)
        passes.append(time.process_time() - start)
        start = time.process_time()
        touched.copy()
        copies.append(time.process_time() - start)
    print(
        f"TRW-S pass 384x288x16: {min(passes[1:]) * 1e3:.1f} ms, a copy of the bytes it touches "
        f"{min(copies) * 1e3:.1f} ms: "
        f"{min(passes[1:]) / min(copies):.2f}x"
    )


#: height, width, labels, strength of Potts grids; a random graph has no width
LARGE = {
    "100x100x5": (100, 100, 5, 0.5),
    "384x288x16": (384, 288, 16, 0.5),
    "random graph, strength .05": (100_000, 0, 4, 0.05),
    "random graph, strength .1": (100_000, 0, 4, 0.1),
}
LARGEST = {"1000x1000x8": (1000, 1000, 8, 0.5)}


def large_problem(
    height: int, width: int, size: int, strength: float
) -> tuple[np.ndarray, np.ndarray, gm.CRF]:
    """Unary costs, edges, and the model."""
    rng = np.random.default_rng(0)
    n = height * max(width, 1)
    unary = rng.normal(size=(n, size))
    if width:
        edges = gm.grid_edges(height, width)
    else:
        pairs = rng.integers(0, n, size=(10 * n, 2))
        edges = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    crf = gm.CRF(n, size).add_unary(unary)
    crf.add(gm.Potts(edges, strength))
    return unary, edges, crf


def expand(height: int, width: int, size: int, strength: float) -> tuple[float, float]:
    """CPU seconds and energy of gco's expansion."""
    import gco

    unary, edges, crf = large_problem(height, width, size, strength)
    weights = np.full(len(edges), strength)
    start = time.process_time()
    labels = gco.cut_general_graph(
        edges.astype(np.int32), weights, unary, 1.0 - np.eye(size), n_iter=-1
    )
    seconds = time.process_time() - start
    return seconds, crf.energy(np.asarray(labels).astype(int))


def solve_large(shape: tuple[int, int, int, float], gap: float) -> tuple[float, float, str, float]:
    """CPU seconds, energy, status, and bytes in units of the unary costs' ones."""
    import resource

    small = (30, 30, *shape[2:]) if shape[1] else (1000, 0, *shape[2:])
    gm.solve(large_problem(*small)[2], gap=gap)  # kernels are loaded
    crf = large_problem(*shape)[2]
    with open("/proc/self/statm") as stream:
        before = int(stream.read().split()[1]) * resource.getpagesize()
    start = time.process_time()
    result = gm.solve(crf, gap=gap)
    seconds = time.process_time() - start
    more = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    state = f"{result.status}, relative gap {result.gap / abs(result.energy):.1e}"
    return seconds, result.energy, state, more / crf.unary.nbytes


def compare_gaps(gaps: tuple[float, ...], shapes: dict) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    def alone(function, *arguments):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()

    for name, shape in shapes.items():
        theirs, least = alone(expand, *shape)
        for gap in gaps:
            seconds, energy, state, memory = alone(solve_large, shape, gap)
            print(
                f"{name}, gap={gap:g}: {seconds:.2f} s, gco {theirs:.2f} s: "
                f"{seconds / theirs:.2f}x; energy {(energy - least) / abs(least):+.1e} of gco's; "
                f"{state}; {memory:.1f}x the unary costs' bytes",
                flush=True,
            )


def first_call() -> None:
    code = (
        "import time, numpy as np, gmlearn as gm; crf = gm.CRF(100, "
        "3).add_unary(np.random.rand(100, 3)); "
        "crf.add(gm.Potts(gm.grid_edges(10, 10), .3)); gm.plugins(); t = time.perf_counter(); "
        "gm.solve(crf, solver='trws'); "
        "print(time.perf_counter() - t)"
    )
    command = [sys.executable, "-c", code]
    runs = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    print(
        f"first gm.solve(solver='trws') in a new process, kernels cached: {min(runs):.2f} s "
        f"(includes importing numba)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="P1,P2,P3,P3b,P4,P5,maxflow,copy,first")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--gaps", default="1e-3,1e-4,0", help="for --only gaps")
    parser.add_argument("--large", default="", help="only problems with this in their name")
    parser.add_argument("--largest", action="store_true")
    args = parser.parse_args()
    only = args.only.split(",")
    if only == ["gaps"]:
        shapes = {**LARGE, **(LARGEST if args.largest else {})}
        shapes = {name: shape for name, shape in shapes.items() if args.large in name}
        return compare_gaps(tuple(map(float, args.gaps.split(","))), shapes)
    unit = gco_seconds(5)
    print(f"unit: gco-wrapper's expansion on P1, {unit:.4f} CPU s")
    for name, (solver, gap) in PROBLEMS.items():
        if name in only:
            crf = problem(name)
            best = (
                LP.get(name)
                or gm.solve(
                    crf, solver="bcfw" if name != "P1" else "trws", max_iter=400, time_limit=30
                ).bound
            )
            seconds, result = seconds_to_gap(crf, solver, best, gap, args.repeat)
            print(
                f"{name} {solver}: dual gap {gap:g} in {seconds:.4f} s = {seconds / unit:.2f} "
                f"units; energy {result.energy:.4f}, "
                f"{100 * (result.energy - best) / abs(best):.4f} % above the best bound {best:.4f}"
            )
    for name, run in (
        ("maxflow", lambda: compare_maxflow(args.repeat)),
        ("copy", lambda: compare_copy(args.repeat)),
        ("first", first_call),
    ):
        if name in only:
            run()


if __name__ == "__main__":
    main()
