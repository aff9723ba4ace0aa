"""How fast MLCA fits: ratios to X.T @ X in the same run, growth in n, memory while streaming.

    python tests/benchmarks/mlca.py [--rows 2000000] [--features 135]

Set OMP_NUM_THREADS=1 for steady figures. CPU seconds of this process, so that busy neighbours
matter little.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from gmlearn_mlca import MLCA


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def compare_with_gram(n: int, d: int, rng: np.random.Generator, rounds: int = 5) -> None:
    """Interleaved, so that both see the same machine."""
    y = rng.integers(0, 2, n)
    for dtype in (np.float32, np.float64):
        X = rng.standard_normal((n, d), dtype=dtype)
        pairs = np.array(
            [
                (cpu_seconds(lambda X=X: X.T @ X), cpu_seconds(lambda X=X: MLCA().fit(X, y)))
                for _ in range(rounds)
            ]
        )
        ratios = pairs[:, 1] / pairs[:, 0]
        print(
            f"n = {n:,}, d = {d}, {np.dtype(dtype).name}: fit / (X.T @ X) = "
            f"{np.median(ratios):.2f} "
            f"(median of {rounds}; {ratios.min():.2f} to {ratios.max():.2f}), X.T @ X "
            f"{pairs[:, 0].min():.2f} CPU s"
        )


def growth(n: int, d: int, rng: np.random.Generator) -> None:
    """Seconds per row on four sizes, as ratios to the first."""
    X, y = rng.standard_normal((n, d), dtype=np.float32), rng.integers(0, 2, n)
    sizes = [n // 8, n // 4, n // 2, n]
    seconds = [
        min(cpu_seconds(lambda m=m: MLCA().fit(X[:m], y[:m])) for _ in range(3)) for m in sizes
    ]
    for m, s in zip(sizes, seconds):
        print(
            f"n = {m:>9,}: time / time(n = {sizes[0]:,}) = {s / seconds[0]:.2f}, linear would be "
            f"{m / sizes[0]:.0f}"
        )
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"time grows like n^{slope:.2f}")


def streaming_memory(n: int, d: int, rng: np.random.Generator) -> None:
    """Peak of what Python and NumPy allocate while fitting a memory-mapped file, and an iterator
    of chunks.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.f32"
        with open(path, "wb") as stream:
            for first in range(0, n, 100_000):
                rng.standard_normal((min(100_000, n - first), d), dtype=np.float32).tofile(stream)
        X, y = np.memmap(path, np.float32, "r", shape=(n, d)), rng.integers(0, 2, n)
        chunks = (
            (
                np.fromfile(path, np.float32, count=20_000 * d, offset=4 * d * first).reshape(
                    -1, d
                ),
                y[first : first + 20_000],
            )
            for first in range(0, n, 20_000)
        )
        for name, work in (
            ("memory-mapped array", lambda: MLCA().fit(X, y)),
            ("iterator of chunks of 20,000 rows", lambda: MLCA().fit(chunks)),
        ):
            tracemalloc.start()
            work()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            print(
                f"{name} of {4 * n * d / 2**20:.0f} MB: peak of extra memory {peak / 2**20:.1f} MB"
            )


def subsampled(n: int, d: int, rng: np.random.Generator) -> None:
    """What a tenth of the rows costs and how far its metric is from the full one."""
    y = rng.integers(0, 3, n)
    X = rng.standard_normal((n, d), dtype=np.float32) + np.eye(3, d, dtype=np.float32)[y]
    full, part = MLCA(), MLCA(subsample=0.1, random_state=0)
    seconds = cpu_seconds(lambda: full.fit(X, y)), cpu_seconds(lambda: part.fit(X, y))
    M, N = (
        m.get_mahalanobis_matrix() / np.linalg.norm(m.get_mahalanobis_matrix())
        for m in (full, part)
    )
    print(
        f"a tenth of n = {n:,}: time / full = {seconds[1] / seconds[0]:.2f}, cosine of the "
        f"metrics {np.sum(M * N):.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=135)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    for part in (compare_with_gram, growth, streaming_memory, subsampled):
        part(options.rows, options.features, rng)


if __name__ == "__main__":
    main()
