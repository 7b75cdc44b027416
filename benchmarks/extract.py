"""EfficientNet-Lite0 features: our backbone against torch's own network, large photographs, and a new process.

    python benchmarks/extract.py

Runs alternate between the rivals and medians are compared, so that what else the machine does falls on both alike.
Exit status 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import kshot

RATIO, PHOTOGRAPH_MS, PROCESS_S = 3.0, 60.0, 0.6
BATCH = 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    backbone = kshot.Backbone.load("efficientnet-lite0")
    with tempfile.TemporaryDirectory() as folder:
        passed = [
            against_torch(backbone, rounds),
            large_photographs(backbone, Path(folder), rounds),
            new_process(Path(folder), rounds),
        ]
    return 0 if all(passed) else 1


def against_torch(backbone: kshot.Backbone, rounds: int) -> bool:
    """The same decoded images through both, from uint8 pixels to features, in batches of 16."""
    images = np.random.default_rng(0).integers(0, 256, (2 * BATCH, 224, 224, 3), dtype=np.uint8)
    network = original()
    how = kshot.datasets.preprocessing.NAMED["efficientnet-lite"]
    exact = kshot.datasets.preprocessing.Preprocessing(crop=224, mean=how.mean, std=how.std)
    pixels = [torch.from_numpy(exact.apply_batch(part)) for part in (images[:BATCH], images[BATCH:])]

    def theirs() -> np.ndarray:
        with torch.inference_mode():
            return torch.cat([network.extract_features(part).mean((2, 3)) for part in pixels]).numpy()

    def ours() -> np.ndarray:
        # From pixels, normalisation included; torch gets its input ready-made.
        return np.concatenate([backbone._run(exact.apply_batch(part)) for part in (images[:BATCH], images[BATCH:])])

    difference = np.abs(ours() - theirs()).max() / np.abs(theirs()).max()
    seconds = alternate({"ours": ours, "torch": theirs}, rounds)
    ratio = seconds["torch"] / seconds["ours"]
    ours_rate, torch_rate = (len(images) / seconds[name] for name in ("ours", "torch"))
    print(
        f"batches of {BATCH}: ours {ours_rate:.0f} images/s, torch {torch_rate:.0f}: {ratio:.1f} times "
        f"(at least {RATIO:g}); features differ by {difference:.2%}"
    )
    return ratio >= RATIO


def large_photographs(backbone: kshot.Backbone, folder: Path, rounds: int) -> bool:
    """Twelve photographs of 12 megapixels, from file to features."""
    paths = photographs(folder, 12)
    seconds = alternate({"ours": lambda: backbone.features(paths)}, rounds)["ours"]
    each = 1000 * seconds / len(paths)
    size = sum(path.stat().st_size for path in paths) / len(paths) / 1e6
    print(f"12-megapixel photographs ({size:.1f} MB): {each:.0f} ms each, file to features (under {PHOTOGRAPH_MS:g})")
    return each < PHOTOGRAPH_MS


def photographs(folder: Path, count: int) -> list[Path]:
    """Make photographs of 4000 × 3000 pixels: noise whose amplitude falls with frequency as nature's does, 1/f^1.2."""
    rng = np.random.default_rng(1)
    frequency = np.hypot(np.fft.fftfreq(3000)[:, None], np.fft.rfftfreq(4000)[None])
    frequency[0, 0] = 1
    grey, *colours = (np.fft.irfft2(np.fft.rfft2(rng.standard_normal((3000, 4000))) / frequency**1.2) for _ in range(4))
    picture = np.stack([grey / grey.std() + 0.3 * colour / colour.std() for colour in colours], axis=-1)
    pixels = np.clip(picture * 45 + 120, 0, 255).astype(np.uint8)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        Image.fromarray(np.roll(pixels, 300 * number, axis=1)).save(path, quality=90)
    return paths


def new_process(folder: Path, rounds: int) -> bool:
    """One photograph to features in a new Python process, everything included."""
    path = folder / "0.jpg"
    small = folder / "small.jpg"
    Image.open(path).resize((800, 600)).save(small)
    code = f"import kshot; kshot.Backbone.load('efficientnet-lite0').features([{str(small)!r}])"

    def ours() -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    seconds = alternate({"ours": ours}, rounds)["ours"]
    print(f"a new process, one photograph: {seconds:.2f} s (under {PROCESS_S:g})")
    return seconds < PROCESS_S


def alternate(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run each rival in turn, `rounds` times after one for warming up, and give the median seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds + 1):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def original() -> torch.nn.Module:
    """Build torch's own network, as the script that converts it does."""
    script = Path(__file__).resolve().parent.parent / "scripts" / "convert_efficientnet.py"
    spec = importlib.util.spec_from_file_location("convert_efficientnet", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network: torch.nn.Module = module.load("lite0")[0]
    return network


if __name__ == "__main__":
    sys.exit(main())
