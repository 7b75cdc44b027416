"""Every kind of figure: it shows what it was given, says what its axes are, and is the same each time."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kshot.evaluation.metrics import calibration_curve
from kshot.plots.calibration import calibration_grid
from kshot.plots.dots import dot_figure
from kshot.plots.embedding import embedding_figure
from kshot.plots.held_out import held_out_figure
from kshot.plots.labels import place_labels
from kshot.plots.looks import looks
from kshot.plots.online import online_figure
from kshot.plots.panels import four_panels
from kshot.plots.scatter import error_against_accuracy
from kshot.plots.style import save
from kshot.plots.sweep import sweep_figure, tradeoff_figure

METHODS = ("gauss-iso", "nearest", "svm")


def results(**below: float) -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = []
    for method in METHODS:
        for k in (1, 5):
            likelihood = np.nan if method == "svm" else -1 + 0.1 * random.normal()
            row = {"method": method, "shots": k, "accuracy": 0.7 + 0.02 * random.normal(), "accuracy_ci95": 0.01}
            row |= {"log_likelihood": likelihood, "log_likelihood_ci95": 0.02}
            rows.append(row | {"ece": np.nan if method == "svm" else abs(0.1 * random.normal())})
    return pd.DataFrame(rows)


def curve():
    random = np.random.default_rng(0)
    proba = random.dirichlet(np.ones(3), size=(20, 30))
    return calibration_curve(proba, random.integers(3, size=(20, 30)))


def sweep() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = [
        {"C": C, "shots": k, "accuracy": 0.7 + 0.01 * i, "log_likelihood": -1 - 0.1 * i, "ece": 0.1 * i}
        for k in (1, 5)
        for i, C in enumerate((1e-5, 1e-2, 10.0))
    ]
    places = {"chosen": (2e-3, 0.71), "cross-validated": (np.nan, 0.7), "calibrated": (3e-3, 0.72)}
    marks = [
        {"mark": mark, "C": C, "shots": k, "accuracy": a, "log_likelihood": -0.9, "ece": 0.05}
        for k in (1, 5)
        for mark, (C, a) in places.items()
    ]
    return pd.DataFrame(rows), pd.DataFrame(marks)


def online() -> pd.DataFrame:
    columns = {"accuracy_all": 0.6, "accuracy_old": 0.6, "accuracy_new": 0.5, "accuracy_old_before": 0.65}
    columns |= {f"accuracy_{part}_ci95": 0.01 for part in ("all", "old", "new")}
    return pd.DataFrame(
        [{"method": m, "shots": k, "ways": 5, "old_classes": 80, **columns} for m in METHODS for k in (1, 5)]
    )


def held_out() -> pd.DataFrame:
    rows = [("gauss-iso", -10.0, -20.0), ("student-t", -15.0, np.nan)]
    return pd.DataFrame(
        [
            {"method": m, "label": m, "neg_log_prob": v, "standard_error": 0.1, "paper": p, "paper_error": 0.1}
            for m, v, p in rows
        ]
    )


FIGURES = {
    "panels": lambda: four_panels(results(), {"gauss-iso": curve()}, shots=5, label=str, title="t"),
    "dots": lambda: dot_figure(results(), label=str, title="t", rules_after=("nearest",)),
    "grid": lambda: calibration_grid({("a", 1): curve()}, methods=["a", "b"], shots=(1, 5), label=str, title="t"),
    "scatter": lambda: error_against_accuracy(results().query("shots == 5"), label=str, title="t"),
    "sweep": lambda: sweep_figure(*sweep(), title="t"),
    "tradeoff": lambda: tradeoff_figure(*sweep(), title="t"),
    "online": lambda: online_figure(online(), label=str, title="t"),
    "held out": lambda: held_out_figure(held_out()),
    "embedding": lambda: embedding_figure(
        np.random.default_rng(0).normal(size=(9, 2)), list("abcdefghi"), ["x", "y", "z"] * 3, title="t"
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_whole_names_its_axes_and_repeats(name: str, tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    for number in (1, 2):
        figure = FIGURES[name]()
        for kind in ("png", "svg"):
            save(figure, tmp_path / f"{number}.{kind}")
    assert dict(mpl.rcParams) == before
    for kind in ("png", "svg"):
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()
    shown = [axes for axes in figure.axes if axes.get_visible()]
    if name not in ("embedding", "grid", "dots", "sweep"):
        assert all(axes.get_xlabel() for axes in shown[-2:])
        assert shown[0].get_ylabel() or name == "held out"
    assert figure.get_suptitle() or any(axes.get_title() or axes.get_title(loc="left") for axes in shown)


def test_a_very_low_log_likelihood_is_written_at_the_edge_and_the_rest_stays_apart() -> None:
    table = results()
    table.loc[(table["method"] == "nearest") & (table["shots"] == 1), "log_likelihood"] = -15.2
    figure = dot_figure(table, label=str, title="t")
    axes = figure.axes[1]
    assert axes.get_xlim()[0] > -3
    assert [text.get_text() for text in axes.texts] == ["◂ −15.2 at 1"]


def test_methods_have_a_colour_and_marker_of_their_own() -> None:
    pairs = [tuple(look.values()) for look in looks([str(i) for i in range(30)]).values()]
    assert len(set(pairs)) == 30


def test_names_cover_neither_each_other_nor_the_points() -> None:
    figure = Figure(figsize=(9, 7))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
    points = np.random.default_rng(3).normal(size=(40, 2))
    axes.scatter(*points.T)
    axes.margins(0.08)
    assert place_labels(axes, points, [f"class number {i}" for i in range(40)]) == 0
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    assert len(boxes) == 40
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        assert not any(box.contains(*at) for at in axes.transData.transform(points))
        assert axes.get_window_extent(renderer).contains(*box.min) and axes.get_window_extent(renderer).contains(
            *box.max
        )
