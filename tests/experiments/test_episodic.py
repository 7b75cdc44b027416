"""The table of methods that train by episodes: the bundled predictions, beside Gauss (iso) on the same tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kshot
from kshot.experiments.episodic import BATCH, DEEPER, SHOTS, TRAINED, episodic
from kshot.experiments.result import Options, Result
from kshot.training.episodic import UNTRAINED

COMMITTED = Path(__file__).resolve().parents[2] / "docs/results/cifar100/episodic.csv"
FIGURES = ["accuracy", "accuracy_ci95", "log_likelihood", "brier", "ece"]


@pytest.fixture(scope="module")
def result() -> Result:
    return episodic(kshot.Features.load("vgg-cifar100"), Options())


def test_gauss_rows_are_those_of_evaluate_on_each_network(result: Result) -> None:
    table = result.tables["episodic"].set_index("method")
    for name, features in ((BATCH, "conv4-cifar100"), (DEEPER, "vgg-cifar100")):
        own = kshot.evaluate(kshot.Features.load(features), ["gauss-iso"], shots=SHOTS)
        np.testing.assert_array_equal(table.loc[name, FIGURES], own[FIGURES])
        assert set(table.loc[name, "backbone"]) == {features}


def test_every_method_is_there_and_beats_its_network_before_training(result: Result) -> None:
    table = result.tables["episodic"].set_index(["method", "shots"])
    assert set(table.index) == {(name, k) for name in (*TRAINED, *UNTRAINED, BATCH, DEEPER) for k in SHOTS}
    for name in TRAINED:
        floor = UNTRAINED[1] if name.startswith("meta-lstm") else UNTRAINED[0]
        for k in SHOTS:
            assert table.loc[(name, k), "backbone"] == table.loc[(floor, k), "backbone"]
            margin = table.loc[(name, k), "accuracy_ci95"] + table.loc[(floor, k), "accuracy_ci95"]
            assert table.loc[(name, k), "accuracy"] > table.loc[(floor, k), "accuracy"] + margin
        assert table.loc[(name, 1), "training_images"] > 0 and table.loc[(name, 1), "training_minutes"] > 0


def test_the_committed_table_is_this_one(result: Result) -> None:
    pd.testing.assert_frame_equal(pd.read_csv(COMMITTED), result.tables["episodic"], check_dtype=False, rtol=1e-6)


def test_features_of_other_images_have_no_row(small_features: kshot.Features) -> None:
    table = episodic(small_features, Options()).tables["episodic"]
    assert DEEPER not in set(table["method"]) and BATCH in set(table["method"])
