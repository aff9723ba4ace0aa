"""Curves, weights and label maps: what is drawn is what was given."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import gmlearn as gm
from gmlearn.plot import plot_bounds, plot_labels, plot_objective, plot_weights


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def history(**columns):
    return SimpleNamespace(**columns)


def test_bounds_draws_both_curves_and_leaves_infinities_out():
    ax = plot_bounds(history(seconds=[0, 1, 2], bound=[-np.inf, 1, 2], energy=[np.inf, 5, 4.5]))
    curves = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(curves["lower bound"][1:], [1, 2])
    np.testing.assert_allclose(curves["best labelling"][1:], [5, 4.5])
    assert np.isnan(curves["lower bound"][0]) and np.isnan(curves["best labelling"][0])
    assert ax.get_title(loc="left") == "gap 2.5"
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["best labelling", "lower bound"]


def test_bounds_of_a_real_result_by_its_own_method():
    crf = gm.CRF(3, 2).add_unary([[0, 1], [1, 0], [0, 1]])
    crf.add(gm.Potts([[0, 1], [1, 2]]))
    result = gm.solve(crf)
    _, given = plt.subplots()
    assert result.plot(given) is given
    assert given.lines[0].get_ydata()[-1] == pytest.approx(result.energy)
    assert given.get_title(loc="left") == "gap 0"


def test_objective_has_holes_a_gap_axis_and_passes():
    ax = plot_objective(
        history(
            seconds=[1, 2, 3],
            objective=[9, None, 7],
            bound=[None, 3, 4],
            gap=[1.0, None, 0.1],
            passes=[1, 2, 3],
        )
    )
    curves = {
        line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist())
        for line in ax.lines
    }
    assert curves == {"objective": ([1, 3], [9, 7]), "lower bound": ([2, 3], [3, 4])}
    right = next(other for other in ax.figure.axes if other is not ax)
    assert right.get_yscale() == "log" and right.lines[0].get_ydata().tolist() == [1.0, 0.1]
    assert ax.get_title(loc="left") == "3 passes"
    assert len(ax.get_legend().get_texts()) == 3


def test_objective_without_bound_and_gap():
    ax = plot_objective(
        history(
            seconds=[1, 2], objective=[9, 8], bound=[None, None], gap=[None, None], passes=[1, 2]
        )
    )
    assert len(ax.lines) == 1 and len(ax.figure.axes) == 1


@pytest.mark.parametrize("plot", [plot_bounds, plot_objective])
def test_empty_history_is_an_error(plot):
    with pytest.raises(ValueError, match="history: expected at least one point"):
        plot(history(seconds=[], bound=[], energy=[], objective=[], gap=[], passes=[]))


def test_weights_as_bars_by_segment():
    ax = plot_weights({"smooth": 0.5, "V": [1.0, -2.0], "pair": [[1, 2], [3, 4]]})
    assert [bar.get_height() for bar in ax.patches] == [0.5, 1, -2, 1, 2, 3, 4]
    assert len({bar.get_facecolor() for bar in ax.patches}) == 3
    assert [t.get_text() for t in ax.get_xticklabels()] == ["smooth", "V\n(2,)", "pair\n(2, 2)"]


def test_one_matrix_is_a_heat_map_centred_at_zero():
    ax = plot_weights({"pair": [[1, -3], [2, 0]]})
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), [[1, -3], [2, 0]])
    assert image.get_clim() == (-3, 3)


@pytest.mark.parametrize("bad", [{}, [1, 2], None])
def test_weights_must_be_a_mapping(bad):
    with pytest.raises(ValueError, match="weights: expected a mapping"):
        plot_weights(bad)


@pytest.mark.parametrize("n_labels", [3, 20])
def test_labels_as_a_picture(n_labels):
    labels = np.arange(24) % n_labels
    _, given = plt.subplots()
    ax = plot_labels(labels, (4, 6), given, energy=1.5)
    assert ax is given and ax.get_title() + ax.get_title(loc="left") == "energy 1.5"
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), labels.reshape(4, 6))
    colours = {tuple(c) for c in image.cmap(image.norm(np.arange(n_labels)))}
    assert len(colours) == n_labels


@pytest.mark.parametrize(
    ("shape", "words"), [((2, 2), "4 places, but there are 6 labels"), ((6,), "height, width")]
)
def test_labels_must_fit_the_shape(shape, words):
    with pytest.raises(ValueError, match=words):
        plot_labels(np.zeros(6, int), shape)


def test_drawing_leaves_the_users_settings_alone():
    before = dict(matplotlib.rcParams)
    plot_bounds(history(seconds=[0], bound=[1], energy=[2]))
    assert dict(matplotlib.rcParams) == before


def test_a_heat_map_counts_rows_and_columns_in_whole_numbers():
    ax = plot_weights({"pair": np.eye(3)})
    ax.figure.canvas.draw()
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        assert all(float(tick).is_integer() for tick in ticks)


def test_every_plot_takes_axes_and_gives_them_back():
    crf = gm.CRF(4, 2).add_unary(np.zeros((4, 2)))
    crf.add(gm.Potts(gm.grid_edges(2, 2)))
    some = history(seconds=[1], bound=[0], energy=[1], objective=[1], gap=[0.5], passes=[1])
    calls = {
        "plot_bounds": [some],
        "plot_objective": [some],
        "plot_weights": [{"w": [1.0]}],
        "plot_labels": [[0, 1, 1, 0], (2, 2)],
        "plot_factor_graph": [crf],
        "plot_entropy": [gm.marginals(crf)],
    }
    assert sorted(calls) == sorted(name for name in gm.plot.__all__ if name.startswith("plot_"))
    for name, arguments in calls.items():
        figure, given = plt.subplots()
        figures = plt.get_fignums()
        assert getattr(gm.plot, name)(*arguments, ax=given) is given
        assert plt.get_fignums() == figures, f"{name} opened a figure of its own"
        assert getattr(gm.plot, name)(*arguments).figure is not figure
