"""Shared by all tests: which ones can run here, and where the image data is."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

collect_ignore = ["training/two_processes.py"]  # a script that a test starts
MISSING = [package for package in ("torch", "jax") if importlib.util.find_spec(package) is None]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the doctests of a room out where its extra is not installed."""
    if "torch" in MISSING and "training" in collection_path.parts and "src" in collection_path.parts:
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark, package in (("train", "torch"), ("sample", "jax")):
            if item.get_closest_marker(mark) and package in MISSING:
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))
        if item.get_closest_marker("data") and "KSHOT_DATA" not in os.environ:
            item.add_marker(pytest.mark.skip(reason="needs the image data: set KSHOT_DATA"))


@pytest.fixture(scope="session")
def image_data() -> Path:
    """Give the folder that holds `cifar-100-python` and `mini-imagenet`."""
    return Path(os.environ["KSHOT_DATA"])
