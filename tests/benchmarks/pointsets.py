"""Point sets: one outer iteration of the annealing against a loop over a library's Sinkhorn; cost
against size.

Run: python tests/benchmarks/pointsets.py. Everything is measured in one run on one thread; read the
ratios.
"""

from __future__ import annotations

import time

import numpy as np
from gmlearn_pointsets import make_point_sets, point_set_distance
from gmlearn_pointsets.distance import hard_match
from gmlearn_pointsets.hard import match_all
from gmlearn_pointsets.rigid import planar_rotation
from gmlearn_pointsets.sets import PointSets, check_point_sets
from gmlearn_pointsets.state import MatchState, Motions, Pairs, checked_motions
from scipy.spatial.transform import Rotation

BETA, RATE, TOL, SWEEPS = 20.0, 1.1, 1e-2, 50


def timed(function, repeat=7):
    """Median CPU milliseconds of several calls."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(1e3 * (time.process_time() - start))
    return float(np.median(times))


def problem(n_images, n_centres, n_points=20):
    """Normalised images, centres taken from them, and a state warm from a few sweeps at the
    temperature before.
    """
    data = make_point_sets(n_centres, n_images // n_centres, n_points, 0.04, random_state=0)
    images = check_point_sets("images", data.images)
    images = images.shifted(images.means())
    images = PointSets(images.points / np.sqrt(images.spreads().mean()), images.sizes)
    centres = PointSets(images.points[:n_centres].copy(), images.sizes[:n_centres])
    state = MatchState(images, centres, Motions())
    state.rotation[:] = match_all(images, centres, Motions(), 12, 2).rotation
    image, centre = np.indices((n_images, n_centres)).reshape(2, -1)
    return state, centres, image, centre


def sweep(state, centres, image, centre, beta, tol=TOL, sweeps=SWEEPS):
    return state.sweep(centres.points, image, centre, np.full(len(image), beta), tol, sweeps)


def outer_iteration():
    print("One outer iteration, 100 images x 10 centres x 20 points, float64, all 1000 pairs")
    for beta in (8.0, 20.0, 50.0, 100.0, 200.0):
        args = problem(100, 10)
        for warm in beta / RATE ** np.arange(8, 0, -1):
            sweep(*args, warm)
        first = timed(lambda a=args, b=beta: sweep(*a, b), repeat=1)
        again = timed(lambda a=args, b=beta: sweep(*a, b))
        print(
            f"  beta {beta:5.0f}: {first:6.1f} ms the first sweep after raising beta, "
            f"{again:6.1f} ms the next ones"
        )


def against_pot():
    import ot

    state, centres, image, centre = problem(100, 10)
    for warm in BETA / RATE ** np.arange(8, 0, -1):
        sweep(state, centres, image, centre, warm)
    x, y = state.images.points, centres.points
    weights = np.full(20, 1 / 20)

    def loop(tol, limit):
        for i, a in zip(image, centre):
            moved = state.shift[i, a] + y[a] @ state.rotation[i, a].T
            cost = ((x[i][:, None] - moved[None]) ** 2).sum(2)
            ot.sinkhorn(weights, weights, cost, 1 / BETA, numItermax=limit, stopThr=tol, warn=False)

    def cold(tol, limit):
        state.row_dual[:], state.col_dual[:] = 0.0, 0.0
        sweep(state, centres, image, centre, BETA, tol, limit)

    print("Matches of 1000 pairs at one temperature (ours: also motion and pull on the centres)")
    # POT stops on the norm of the column error of a plan with sum one: ours / sqrt(20) is at least
    # as loose for POT
    loose = timed(lambda: loop(TOL / np.sqrt(20), SWEEPS), repeat=3)
    tight = timed(lambda: loop(1e-9, 1000), repeat=1)
    warm = timed(lambda: sweep(state, centres, image, centre, BETA))
    cold_loose, cold_tight = timed(lambda: cold(TOL, SWEEPS)), timed(lambda: cold(2e-8, 1000))
    print(
        f"  tolerance 1e-2, 50 sweeps : loop over ot.sinkhorn {loose:7.0f} ms; ours warm "
        f"{warm:5.1f} ms, {loose / warm:5.0f}x; "
        f"cold {cold_loose:5.1f} ms, {loose / cold_loose:5.0f}x"
    )
    print(
        f"  POT's defaults (1e-9, 1000): loop over ot.sinkhorn {tight:7.0f} ms; ours from a cold "
        f"start to the same "
        f"tolerance {cold_tight:5.1f} ms, {tight / cold_tight:5.0f}x; a warm step of the "
        f"annealing {tight / warm:5.0f}x"
    )


def linear_cost():
    print("Cost of a sweep against images x centres")
    base = None
    for n_images, n_centres in ((100, 10), (200, 10), (400, 10), (200, 20), (400, 20)):
        args = problem(n_images, n_centres)
        sweep(*args, BETA)
        duration = timed(lambda a=args: sweep(*a, BETA))
        per_pair = 1e3 * duration / (n_images * n_centres)
        base = base or per_pair
        print(
            f"  {n_images:4d} x {n_centres:2d}: {duration:7.1f} ms, {per_pair:5.2f} us a pair, "
            f"{per_pair / base:4.2f} of the first"
        )


def hard_and_soft_distance():
    rng = np.random.default_rng(0)
    X, Y = rng.random((60, 20, 2)), rng.random((10, 20, 2))
    print("point_set_distance, 600 pairs of 20 points from 24 starts")
    for method in ("hard", "softassign"):
        duration = timed(lambda m=method: point_set_distance(X, Y, method=m), repeat=3)
        print(f"  {method:10s}: {1e3 * duration / 600:6.0f} us a pair")


# ------------------------------------------------------------------ outliers and missing points


def spoilt_pair(rng, kind, dims, n, sigma, share=0.3):
    """X and Y, and the motion X ~ t + R Y; `share` of the points of X are outliers, or missing."""
    Y = rng.normal(size=(n, dims))
    R = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
    if dims == 2:
        R = planar_rotation(rng.uniform(0, 2 * np.pi))
    t = rng.normal(size=dims)
    X = t + Y @ R.T + sigma * rng.normal(size=(n, dims))
    k = round(share * n)
    X = X[k:] if kind == "missing" else np.concatenate([t + rng.normal(size=(k, dims)), X[k:]])
    return X[rng.permutation(len(X))], Y, R, t


def distance_from(X, Y, R, t, price):
    """D of the alternation that starts at a given motion."""
    x, y = check_point_sets("X", X), check_point_sets("Y", Y)
    motions = checked_motions(True, True, False, price, None)
    one = np.zeros(1, np.int64)
    pairs = Pairs(x, y, one, one, R[None, None], np.ones((1, 1)), motions)
    return hard_match(pairs, t[None, None], np.ones((1, 1)))[0][0]


def coherent_point_drift(X, Y, price, rng, n_starts=12):
    """The best D from `n_starts` random rotations by pycpd, each finished by our alternation."""
    from pycpd import RigidRegistration

    best = np.inf
    for _ in range(n_starts):
        turn = Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()
        if Y.shape[1] == 2:
            turn = planar_rotation(rng.uniform(0, 2 * np.pi))
        found = RigidRegistration(X=X, Y=Y @ turn.T, scale=False, w=0.3)
        found.register()
        best = min(best, distance_from(X, Y, found.R.T @ turn, found.t.ravel(), price))
    return best


def outliers(n_trials=100):
    print(f"D no worse than at the true motion, of {n_trials} trials; CPU ms a trial")
    methods = {
        m: (lambda X, Y, price, rng, m=m: point_set_distance(X, Y, method=m, outlier_cost=price))
        for m in ("global", "softassign", "hard")
    }
    warm = np.random.default_rng(0)
    for dims in (2, 3):
        for find in methods.values():
            find(warm.random((5, dims)), warm.random((5, dims)), 0.1, None)
    for kind, dims, n, sigma, price in (
        ("outliers", 3, 20, 0.02, 0.1),
        ("outliers", 3, 20, 0.02, 0.01),
        ("outliers", 3, 20, 0.10, 0.3),
        ("outliers", 3, 20, 0.02, None),
        ("missing", 3, 20, 0.02, None),
        ("missing", 3, 20, 0.02, 0.1),
        ("outliers", 3, 50, 0.02, 0.1),
        ("outliers", 2, 20, 0.02, 0.1),
        ("missing", 2, 20, 0.02, None),
    ):
        row = []
        for name in (*methods, "pycpd, 12 starts"):
            rng = np.random.default_rng(11)
            right, seconds = 0, 0.0
            for _ in range(n_trials):
                X, Y, R, t = spoilt_pair(rng, kind, dims, n, sigma)
                start = time.process_time()
                if name in methods:
                    found = methods[name](X, Y, price, rng).distance
                else:
                    found = coherent_point_drift(X, Y, price, np.random.default_rng(0))
                seconds += time.process_time() - start
                right += found <= distance_from(X, Y, R, t, price) * (1 + 1e-9) + 1e-12
            row.append(f"{name} {right} ({1e3 * seconds / n_trials:.1f})")
        print(f"  {dims}-D, 30 % {kind}, n = {n}, sigma {sigma}, price {price}: {'; '.join(row)}")


if __name__ == "__main__":
    outliers()
    outer_iteration()
    against_pot()
    linear_cost()
    hard_and_soft_distance()
