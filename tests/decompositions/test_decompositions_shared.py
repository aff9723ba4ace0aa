"""Larger slaves: strips, shared cliques, and multipliers carried over to other slaves."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from core_cases import KINDS, Weird, minimum, random_model, some_edges

import gmlearn as gm
from gmlearn.master import ascend_bcfw
from gmlearn.model import join
from gmlearn.slaves.elimination import elimination_order

MAPS = pathlib.Path(__file__).parents[3] / "shared" / "data" / "maps"


def spin_glass(height, width, seed, field=0.3):
    """A grid whose couplings have either sign, in a weak random field."""
    rng = np.random.default_rng(seed)
    n, edges = height * width, gm.grid_edges(height, width)
    crf = gm.CRF(n, 2).add_unary(np.stack([np.zeros(n), field * rng.normal(size=n)], axis=1))
    spin = np.array([[1.0, -1.0], [-1.0, 1.0]])
    crf.add(gm.Pairwise(edges, table=rng.normal(size=len(edges))[:, None, None] * spin))
    return crf


def lines(height, width, count, step, columns=False, cyclic=False):
    """Sets of `count` neighbouring rows or columns, at every `step`-th."""
    index = np.arange(height * width).reshape(height, width)
    index = index.T if columns else index
    if cyclic:
        rows = [np.arange(s, s + count) % len(index) for s in range(0, len(index), step)]
    else:
        rows = [np.arange(s, min(s + count, len(index))) for s in range(0, len(index) - 1, step)]
    return [index[r].T.ravel() for r in rows]


def solve(crf, decomposition, max_iter=100):
    return gm.solve(crf, solver="bcfw", decomposition=decomposition, max_iter=max_iter)


# ---------------------------------------------------------------------- tighter, and valid


@pytest.mark.parametrize("seed", range(2))
def test_strips_are_tighter_than_lines_and_shared_ones_tighter_still(seed):
    crf = spin_glass(20, 20, seed)
    best = solve(crf, gm.Strips(8)).energy
    bounds = [
        solve(crf, d).bound for d in ("rows-columns", gm.Strips(3, share=False), gm.Strips(3))
    ]
    assert bounds[0] < bounds[1] - 20.0 < bounds[2] - 40.0
    assert bounds[2] <= best + 1e-6
    assert bounds[2] > best - 0.01 * abs(best)


@pytest.mark.parametrize("seed", range(4))
def test_strips_prove_the_optimum_of_spin_glasses(seed):
    size, width = ((20, 5), (30, 8))[seed % 2]
    found = solve(spin_glass(size, size, 10 + seed), gm.Strips(width, overlap=width // 2))
    assert found.status == "optimal"


def test_strips_of_a_large_binary_grid():
    crf = spin_glass(100, 100, 0)
    slaves = gm.decompose(crf, "strips")
    assert slaves.n_slaves == 50 and len(slaves.groups) == 1
    strips, chains = (solve(crf, d, max_iter=8) for d in ("strips", "rows-columns"))
    assert chains.bound < strips.bound - 1000.0 < strips.energy


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_round_is_a_bound(kind, share):
    crf, w = random_model(np.random.default_rng(2), kind)
    best = minimum(crf, w)[0]
    w = crf.check_weights(w)
    for decomposition in (
        gm.Subgraphs([[0, 1, 2], [1, 2, 3], [2, 3, 4, 0]], share=share),
        gm.Strips(2, share=share),
    ):
        dual = gm.Dual(gm.decompose(crf, decomposition), w)
        for _, current in zip(range(12), ascend_bcfw(dual)):
            assert current.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_sharing_closes_what_single_labels_cannot(seed):
    """Two windows with one row in common: they must agree on its edges, too."""
    crf = spin_glass(3, 5, seed, field=0.1)
    best = gm.solve(crf, solver="exact").energy
    apart, shared = (solve(crf, gm.Strips(2, share=s), 300) for s in (False, True))
    assert shared.bound == pytest.approx(best, abs=1e-5)
    assert apart.bound < best - 0.01


# ---------------------------------------------------------------------- what goes where


def test_what_is_shared_is_a_coordinate():
    crf = gm.CRF([2, 3, 2]).add_unary([[0, 1], [0, 1, 2], [1, 0]])
    crf.add(gm.Table([[1, 0], [1, 2]], [np.arange(6.0).reshape(3, 2), np.ones((3, 2))]))
    slaves = gm.decompose(crf, gm.Subgraphs([[0, 1, 2], [1, 0]]))
    (shared,) = slaves.shared
    assert slaves.n_coords == crf.n_coords + 6 and shared.block.variables.tolist() == [[1, 0]]
    assert slaves.unary({})[crf.n_coords :].tolist() == list(range(6))
    x = np.array([1, 2, 0])
    assert np.flatnonzero(slaves.indicators(x)[crf.n_coords :]).tolist() == [5]
    assert slaves.proposals([], slaves.indicators(x))[0].tolist() == x.tolist()


def test_features_of_shared_cliques_come_from_the_mean():
    rng = np.random.default_rng(0)
    crf = gm.CRF(5, 3)
    crf.add(gm.LearntTable(some_edges(rng, 5, 8), symmetric=False))
    w = {"pair": rng.normal(size=(3, 3))}
    slaves = gm.decompose(crf, gm.Subgraphs([[0, 1, 2, 3], [1, 2, 3, 4], [0, 1, 4]]))
    dual = gm.Dual(slaves, w, rng.normal(size=len(slaves.coords)))
    dual.lam = dual.centred(dual.lam)
    current = dual.round()
    total = slaves.unary_features(current.mean)
    for group, result in zip(slaves.groups, current.results):
        for name, value in group.features(result).items():
            total[name] = total.get(name, 0.0) + value
    for step in rng.normal(size=(4, 3, 3)):  # the bound is piecewise linear in the weights
        dual.set_weights({"pair": w["pair"] + 1e-7 * step})
        slope = (dual.round().bound - current.bound) / 1e-7
        assert slope == pytest.approx((total["pair"] * step).sum(), abs=1e-5)


def test_cliques_without_a_small_table_keep_their_own_slaves():
    crf = gm.CRF(20, 2).add_unary(np.random.default_rng(0).normal(size=(20, 2)))
    crf.add(gm.Potts(gm.grid_edges(4, 5), 1.0))
    crf.add("pn_potts", cliques=[np.arange(18)], beta=[0.0, 0.0], beta_max=3.0)
    slaves = gm.decompose(crf, gm.Subgraphs([np.arange(20)]))
    assert [type(g).__name__ for g in slaves.groups] == ["JunctionTreeGroup", "CliqueGroup"]
    assert solve(crf, gm.Subgraphs([np.arange(20)])).bound <= gm.solve(crf).energy + 1e-9


def test_cliques_of_different_sizes_inside_the_sets():
    crf = gm.CRF(6, 2).add_unary(np.random.default_rng(1).normal(size=(6, 2)))
    crf.add(Weird([[0, 1, 2], [1, 2, 3, 4], [4, 5]], [1.0, -2.0, 1.5]))
    slaves = gm.decompose(crf, gm.Subgraphs([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]))
    assert len(slaves.groups) == 1 and [len(s.shape) for s in slaves.shared] == [4]
    assert solve(crf, gm.Subgraphs([range(6)])).bound == pytest.approx(minimum(crf)[0])


def test_many_joint_labels_are_not_shared():
    crf = gm.CRF(3, 20)
    crf.add(gm.Potts([[0, 1], [1, 2]], 1.0))
    assert gm.decompose(crf, gm.Subgraphs([[0, 1, 2], [0, 1]])).n_coords == 60


def held_together(crf, sets):
    """Which cliques are inside some set."""
    inside = [set(np.asarray(s).tolist()) for s in sets]
    cliques = [m.tolist() for b in crf.blocks for m in np.split(b.members, b.indptr[1:-1])]
    return [any(i.issuperset(c) for i in inside) for c in cliques]


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_windows_of_irregular_graphs_keep_to_their_width(seed, width):
    rng = np.random.default_rng(seed)
    crf = gm.CRF(40, 2).add_unary(rng.normal(size=(40, 2)))
    near = np.array([[i, j] for i in range(40) for j in range(i + 1, min(i + 4, 40))])
    crf.add(gm.Potts(rng.permutation(40)[near[rng.random(len(near)) < 0.7]], 1.0))
    group = gm.decompose(crf, gm.Strips(width)).groups[0]
    for s in group.sets:
        place = {int(v): i for i, v in enumerate(s)}
        edges = [
            [place[v] for v in e] for e in crf.blocks[0].variables.tolist() if set(e) <= set(place)
        ]
        indptr, scope = 2 * np.arange(len(edges) + 1), np.array(edges).ravel()
        assert elimination_order(indptr, scope, np.full(len(s), 2)).width <= width
    assert np.mean(held_together(crf, group.sets)) > 0.7
    assert solve(crf, gm.Strips(width), 20).bound <= gm.solve(crf, solver="exact").energy + 1e-9


def test_windows_of_a_torus_cover_its_seams():
    index = np.arange(144).reshape(12, 12)
    edges = [np.stack([index, np.roll(index, -1, axis)], axis=-1) for axis in (0, 1)]
    crf = gm.CRF(144, 2)
    crf.add(gm.Potts(np.concatenate(edges).reshape(-1, 2), 1.0))
    assert all(held_together(crf, gm.decompose(crf, gm.Strips(6)).groups[0].sets))


def test_joined_models_have_the_strips_of_their_parts():
    parts = [spin_glass(4, 6, 0), spin_glass(5, 3, 1), gm.CRF(3, 2), spin_glass(4, 6, 2)]
    parts[2].add(gm.Potts([[0, 1], [1, 2], [0, 2]], -1.0))
    whole, first = gm.decompose(join(parts), "strips"), 0
    sets = []
    for part in parts:
        sets += [first + s for s in gm.decompose(part, "strips").groups[0].sets]
        first += part.n_vars
    assert [s.tolist() for s in whole.groups[0].sets] == [s.tolist() for s in sets]


@pytest.mark.parametrize(
    "options, message",
    [({"width": 1}, "width"), ({"width": 3, "overlap": 3}, "overlap"), ({"width": 2.5}, "width")],
)
def test_strips_refuse_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        gm.Strips(**options)


def test_training_with_strips():
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(3):
        x = rng.normal(size=(20, 3))
        crf = gm.CRF(20, 3)
        crf.add(gm.Unary(x, weight="u"))
        crf.add(gm.Pairwise(gm.grid_edges(4, 5), weight="p", symmetric=False))
        samples.append(gm.Sample(crf, (x + 0.5 * rng.normal(size=x.shape)).argmin(axis=1)))
    exact, strips, chains = (
        gm.train(
            samples,
            decomposition=d,
            regularizer=gm.L2(0.5),
            max_iter=150,
            tol=1e-5,
            seed=0,
            show_progress=False,
        ).objective
        for d in (gm.Subgraphs([range(20)]), gm.Strips(3), "chains")
    )
    assert exact <= strips * (1 + 1e-3) and strips <= chains * (1 + 1e-3)


# ---------------------------------------------------------------------- multipliers carried over


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_added_slaves_keep_the_bound(seed, share):
    crf = spin_glass(10, 10, seed)
    rows, columns = lines(10, 10, 3, 2), lines(10, 10, 2, 1, columns=True)
    old = gm.Dual(gm.decompose(crf, gm.Subgraphs(rows, share=share)), {})
    for _ in zip(range(6), ascend_bcfw(old)):
        pass
    before = old.round().bound
    for added in ([], columns[:2], columns):
        slaves = gm.decompose(crf, gm.Subgraphs([*added, *rows]))
        lam = slaves.carry(old.slaves, old.lam, {})
        assert np.abs(slaves.mean(lam)).max() < 1e-9
        dual = gm.Dual(slaves, {}, lam)
        assert dual.round().bound == pytest.approx(before, abs=1e-8)
    for _ in zip(range(10), ascend_bcfw(dual)):
        pass
    assert share or dual.round().bound > before + 1.0


def test_removed_slaves_leave_valid_multipliers():
    crf, w = random_model(np.random.default_rng(0), "hard")
    best = minimum(crf, w)[0]
    sets = [[0, 1, 2, 3], [1, 2, 3, 4], [0, 3, 4]]
    slaves = gm.decompose(crf, gm.Subgraphs(sets))
    lam = gm.Dual(slaves, w).centred(np.random.default_rng(1).normal(size=len(slaves.coords)))
    for fewer in (sets[:2], sets[1:], [sets[0]]):
        kept = gm.decompose(crf, gm.Subgraphs(fewer))
        assert gm.Dual(kept, w, kept.carry(slaves, lam, w)).round().bound <= best + 1e-9


def test_a_solve_goes_on_with_added_slaves():
    crf = spin_glass(12, 12, 0)
    rows, columns = lines(12, 12, 2, 1), lines(12, 12, 2, 1, columns=True)
    for share in (True, False):
        first = solve(crf, gm.Subgraphs(rows, share=share), 6)
        warm = gm.solve(
            crf,
            solver="bcfw",
            decomposition=gm.Subgraphs(columns + rows),
            warm=first,
            max_iter=1,
        )
        assert warm.bound >= first.bound - 1e-8


class Squares(gm.Slaves):
    """Windows of a stranger: those of `later` come in where labels stay fractional."""

    def __init__(self, crf, sets, later):
        made = gm.Subgraphs(sets).decompose(crf)
        super().__init__(crf, made.groups, shared=made.shared)
        self.sets, self.later = sets, later

    def grow(self, mean, theta):
        loose = np.minimum(mean, 1.0 - mean)[: self.crf.n_coords] > 0.05
        open_ = np.logical_or.reduceat(loose, self.crf.offsets[:-1])
        late = [s for s in self.later if not open_[s].any()]
        if len(late) == len(self.later):
            return None
        return Squares(self.crf, self.sets + [s for s in self.later if open_[s].any()], late)


class GrowingSquares(gm.Decomposition):
    name = "growing-squares"

    def __init__(self, later=None):
        self.later = later

    def decompose(self, crf, power=None):
        if power is not None or crf.n_vars < 4:
            raise ValueError("no")
        edges = [e for b in crf.clique_blocks if b.arity == 2 for e in b.variables]
        if not edges:
            raise ValueError("no edges")
        later = [np.arange(s, s + 3) for s in range(crf.n_vars - 2)]
        return Squares(crf, edges, later if self.later is None else self.later)


@pytest.mark.parametrize(("solver", "rounds"), [("bcfw", 60), ("dual-subgradient", 300)])
@pytest.mark.parametrize("seed", range(2))
def test_windows_come_in_during_the_ascent(seed, solver, rounds):
    crf = spin_glass(8, 8, seed)
    later = [np.asarray(s) for s in gm.grid_cliques(8, 8, 3, 3)]
    best = gm.solve(crf, solver="exact").energy
    loose = gm.solve(crf, solver=solver, decomposition=GrowingSquares([]), max_iter=rounds)
    found = gm.solve(crf, solver=solver, decomposition=GrowingSquares(later), max_iter=rounds)
    assert loose.bound < found.bound - 0.5 and found.bound <= best + 1e-6
    assert np.diff(found.history.bound).min() >= 0.0


def test_the_kit_checks_slaves_that_come_in_later():
    gm.testing.check(GrowingSquares())


def test_multipliers_of_another_model_are_of_use_where_slaves_are_the_same():
    crf, other = spin_glass(6, 6, 0), spin_glass(6, 6, 0)
    other.add(gm.Potts([[0, 7], [14, 21]], 1.0))
    old = gm.Dual(gm.decompose(crf, gm.Subgraphs(lines(6, 6, 3, 2))), {})
    for _ in zip(range(8), ascend_bcfw(old)):
        pass
    slaves = gm.decompose(other, gm.Subgraphs(lines(6, 6, 3, 2)))
    kept = gm.Dual(slaves, {}, slaves.carry(old.slaves, old.lam, {})).round().bound
    best = gm.solve(other, solver="exact").energy
    assert gm.Dual(slaves, {}).round().bound < kept <= best + 1e-9


# ---------------------------------------------------------------------- known instances


def instance(name):
    path = MAPS / f"{name}.uai"
    if not path.exists():
        pytest.skip(f"no {path.name}")
    return gm.read(path)


@pytest.mark.parametrize(
    "name, sets, known",
    [
        ("dbe_grid20x20.f5", lines(20, 20, 6, 5), -1521.6614625),
        ("uai14_Grids_30", lines(20, 20, 6, 5) + lines(20, 20, 6, 5, True), -3015.7447251),
        (
            "uai14_Grids_29",  # a torus
            lines(20, 20, 3, 2, cyclic=True) + lines(20, 20, 3, 2, True, cyclic=True),
            -1542.6646642,
        ),
    ],
)
def test_overlapping_strips_prove_known_optima(name, sets, known):
    found = solve(instance(name), gm.Subgraphs(sets))
    assert found.status == "optimal" and found.energy == pytest.approx(known, abs=1e-6)
