"""The whole way with the bundled network and real photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kshot.concepts import Calibration, Temperature
from kshot.photos import learn
from kshot.photos.estimate import Estimate
from kshot.photos.fitting import Calibrations
from kshot.photos.predicting import predict

# Of a trial (see the design): good enough to test the way, whatever numbers are bundled.
CALIBRATIONS = Calibrations(
    Calibration(75.0, Temperature((1, 5, 10), (3.7, 2.3, 1.9))),
    Calibration(250_000.0, Temperature((1,), (1.0,)), setting="joint"),
    "base images",
)


@pytest.fixture(scope="module")
def crops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cut squares from scikit-learn's two sample photographs: a temple and a flower."""
    from sklearn.datasets import load_sample_images

    samples = load_sample_images()
    root = tmp_path_factory.mktemp("crops")
    rng = np.random.default_rng(0)
    for name, pixels in zip(("temple", "flower"), samples.images, strict=True):
        for number in range(8):
            top, left = rng.integers(0, pixels.shape[0] - 300), rng.integers(0, pixels.shape[1] - 300)
            folder = root / ("learned" if number < 4 else "new") / name
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[top : top + 300, left : left + 300]).save(folder / f"{number}.jpg")
    return root


def test_two_photographs_are_told_apart_by_their_pieces(crops: Path) -> None:
    model = learn(crops / "learned", calibrations=CALIBRATIONS).model
    for name in ("temple", "flower"):
        said = predict(model, sorted((crops / "new" / name).iterdir()), closed=True)
        assert [answer.name for answer in said] == [name] * 4
    estimate = Estimate.of(model.left_out, model.examples.labels, threshold=model.threshold)
    assert estimate.judged == 8 and estimate.low > 0.5


@pytest.mark.data
@pytest.mark.slow
def test_the_estimate_holds_on_photographs_that_were_not_given(image_data: Path, tmp_path: Path) -> None:
    test = image_data / "mini-imagenet" / "test"
    new: list[tuple[str, Path]] = []
    for folder in sorted(test.iterdir())[:5]:
        (tmp_path / "f" / folder.name).mkdir(parents=True)
        files = sorted(folder.glob("*.jpg"))
        for path in files[:10]:
            (tmp_path / "f" / folder.name / path.name).symlink_to(path)
        new += [(folder.name, path) for path in files[10:30]]
    model = learn(tmp_path / "f", calibrations=CALIBRATIONS).model
    said = predict(model, [path for _, path in new], threshold=0.0)
    right = np.mean([answer.name == name for answer, (name, _) in zip(said, new, strict=True)])
    estimate = Estimate.of(model.left_out, model.examples.labels, threshold=0.0)
    # The share among 100 new ones varies too, by three points or so.
    assert estimate.judged == 50 and estimate.low - 0.03 <= right <= estimate.high + 0.03
    own = np.mean([np.log(dict(answer.ranking)[name]) for answer, (name, _) in zip(said, new, strict=True)])
    # Each is a mean over 50 or 100 photographs of a number that varies by about 1.
    assert estimate.log_likelihood == pytest.approx(own, abs=0.35)
