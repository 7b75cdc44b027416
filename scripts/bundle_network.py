"""Turn a finished training run into what the package bundles: backbone, features, curve and model card.

    python scripts/bundle_network.py RUN --data DIR --name vgg-cifar100 --command "kshot train ..."

writes, with every figure computed here (--features-only leaves the network beside its checkpoint, unbundled):

    src/kshot/assets/backbones/NAME.safetensors    the network as ONNX with its base weights, float16
    src/kshot/assets/features/NAME.safetensors     of the new classes and the base classes' test images
    docs/models/NAME.csv, NAME.png, NAME.md        the curve, its picture, the model card

With --before FIRST... where RUN was started from other runs, or --before docs/models/NAME.csv where it was started from
the backbone that they gave, curve and hours are of all of them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from lightning_fabric import Fabric
from numpy.typing import NDArray

import kshot
from kshot.datasets.imageset import ImageSet
from kshot.datasets.splits import open_data
from kshot.datasets.tasks import draw_tasks
from kshot.training.checkpoint import Trained, export_trained, lineage, read, restore
from kshot.training.log import Log
from kshot.training.trainer import evaluate

ROOT = Path(__file__).resolve().parent.parent
SHOTS = (1, 5, 10)
TASKS = 600


def main() -> None:
    parser = argparse.ArgumentParser(description="Bundle a trained network.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--command", required=True, help="the training command, for the model card")
    parser.add_argument("--hardware", default="two CPU cores", help="what it ran on, for the model card")
    parser.add_argument(
        "--before",
        type=Path,
        nargs="*",
        default=[],
        help="the runs it started from, the first first, or their joined .csv",
    )
    parser.add_argument("--weights", choices=["averaged", "raw"], default="averaged")
    parser.add_argument("--features-only", action="store_true", help="of a network that is only compared with others")
    parser.add_argument("--images-per-class", type=int)
    parser.add_argument("--base-per-class", type=int, default=100, help="test images of each base class; 0 for none")
    arguments = parser.parse_args()

    trained = restore(arguments.run)
    split = open_data(arguments.data, images_per_class=arguments.images_per_class)
    assert split.base.names == trained.names and split.new is not None
    assert trained.last_images == split.base.last_ids, "--images-per-class: as it was trained"
    curves = [run if run.suffix == ".csv" else run / "log.csv" for run in [*arguments.before, arguments.run]]
    if all(run.is_dir() for run in arguments.before):
        known = [lineage(read(run))[-1] for run in arguments.before]
        assert trained.before == known, "--before: the runs it started from"
    else:
        epochs = sum(len(pd.read_csv(curve)) for curve in curves[:-1])
        assert sum(run["epochs"] for run in trained.before) == epochs, "--before: the curve of what it started from"
    folder = arguments.run if arguments.features_only else ROOT / "src/kshot/assets/backbones"
    backbone_path = folder / f"{arguments.name}.safetensors"
    backbone_path.parent.mkdir(parents=True, exist_ok=True)
    export_trained(trained, backbone_path, weights=arguments.weights, source=split.source, storage="float16")
    features_path = ROOT / "src/kshot/assets/features" / f"{arguments.name}.safetensors"
    features_path.parent.mkdir(parents=True, exist_ok=True)
    # The same command as a user's.
    command = ["kshot", "extract", str(arguments.data), "--backbone", str(backbone_path), "--dtype", "float16"]
    command += ["--base-per-class", str(arguments.base_per_class), "--batch-size", "250", "--out", str(features_path)]
    subprocess.run([sys.executable, "-m", *command], check=True)
    log = whole_log(curves, ROOT / "docs/models" / arguments.name)
    features = with_training(features_path, log)
    sizes = {"backbone": backbone_path.stat().st_size, "features": features_path.stat().st_size}
    if arguments.features_only:
        del sizes["backbone"]
    path = ROOT / "docs/models" / f"{arguments.name}.md"
    card = model_card(arguments, trained, features, log, sizes, both_weights(trained, split.base), said(path))
    path.write_text(card)
    print(card)


def whole_log(curves: list[Path], to: Path) -> pd.DataFrame:
    """Join the logs of runs that each started from the one before; write the curve as TO.csv and TO.png."""
    to.parent.mkdir(parents=True, exist_ok=True)
    joined = pd.concat([pd.read_csv(curve) for curve in curves], ignore_index=True)
    joined["epoch"] = range(1, len(joined) + 1)
    log = Log(to.with_suffix(".csv"))
    for row in joined.to_dict("records"):
        log.add(row)
    log.draw(to.with_suffix(".png"))
    return joined


def with_training(path: Path, log: pd.DataFrame) -> kshot.Features:
    """Write into the features' source what the training cost, for reports that compare at equal cost."""
    features = kshot.Features.load(path)
    features.source["training"] = {
        "seconds": float(log["seconds"].sum()),
        "images_seen": round(float((log["seconds"] * log["images_per_second"]).sum())),
    }
    features.save(path, dtype="float16")
    return kshot.Features.load(path)


def both_weights(trained: Trained, base: ImageSet) -> dict[str, float]:
    """Give the accuracy of the raw and of the averaged weights on the first 20 training images of each class.

    Not how good they are, but whether the average lags behind: it must not be far below.
    """
    some, _ = base.first_per_class(20)
    fabric = Fabric(accelerator="cpu", devices=1)
    networks = {"raw": trained.network, "averaged": trained.averaged}
    return {
        name: evaluate(fabric, network, some, trained.size, trained.normalisation)[1]
        for name, network in networks.items()
        if network is not None
    }


def base_accuracy(features: kshot.Features) -> float | None:
    """Give the accuracy of the network itself on the base classes' test images, from the stored arrays."""
    if features.base_X is None or features.base_weights is None:
        return None
    return float(((features.base_X @ features.base_weights.T).argmax(axis=1) == features.base_y).mean())


def k_shot(features: kshot.Features, shots: int) -> tuple[float, float]:
    """Give accuracy and its 95 % half-width of the isotropic Gaussian prior by MAP, over 600 tasks of 5 classes."""
    assert features.base_weights is not None
    prior = kshot.GaussianPrior.fit(features.base_weights, covariance="iso")
    tasks = draw_tasks(features.y, shots=shots, tasks=TASKS)
    _, info = kshot.fit_tasks(prior, features.X[tasks.support], tasks.support_labels, X_query=features.X[tasks.query])
    proba: NDArray[np.float64] = info.proba
    right = (proba.argmax(axis=2) == tasks.query_labels).mean(axis=1)
    return float(right.mean()), float(1.96 * right.std(ddof=1) / TASKS**0.5)


def phase_words(phase: dict[str, Any]) -> str:
    """Say what a phase was."""
    depth = "" if phase.get("depth", 1) == 1 else f" with {phase['depth']:g} of the depth"
    images = (
        f"at {phase['size']} px" if "frame" not in phase else f"on squares of {phase['size']} of {phase['frame']} px"
    )
    return f"{phase['epochs']} epoch{'s' if phase['epochs'] > 1 else ''} {images}{depth}"


def schedule(run: dict[str, Any]) -> str:
    """Say what a run's plan was."""
    recipe = run["recipe"]
    phases = ", then ".join(phase_words(phase) for phase in recipe["phases"])
    planned = sum(phase["epochs"] for phase in recipe["phases"])
    if run["epochs"] < planned:
        phases = f"stopped after {run['epochs']} of {planned} epochs: {phases}"
    rate = f"rate {recipe['learning_rate']:g} after a warm-up over {recipe['warmup']:.0%}, one cosine to zero"
    taught = recipe.get("distillation")
    words = f"{phases}; {recipe['optimiser']}, {rate}; batch {recipe['batch']}"
    if taught:
        words += (
            f"; {taught['weight']:.0%} of the loss from the network before, at temperature {taught['temperature']:g}"
        )
    turned = recipe.get("rotation")
    if turned:
        words += f"; {turned['part']:.0%} of the images turned, by how much learned with weight {turned['weight']:g}"
    if recipe.get("mean_with_start"):
        words += "; then the mean of these weights and those that it started from"
    return words


def said(card: Path) -> list[str]:
    """Give the lines that somebody wrote by hand between a card's table and its picture."""
    if not card.is_file():
        return []
    lines = card.read_text().splitlines()
    table = max(number for number, line in enumerate(lines) if line.startswith("|"))
    picture = next(number for number, line in enumerate(lines) if line.startswith("!["))
    return lines[table + 1 : picture - 1]


def model_card(
    arguments: argparse.Namespace,
    trained: Trained,
    features: kshot.Features,
    log: pd.DataFrame,
    sizes: dict[str, int],
    both: dict[str, float],
    by_hand: list[str],
) -> str:
    """Write the card; every figure in it comes from the bundled files, but for what was written by hand."""
    assert features.base_weights is not None
    recipe, accuracy = trained.recipe, base_accuracy(features)
    results = [k_shot(features, shots) for shots in SHOTS]
    variance = features.base_weights.var(axis=0).mean()
    lines = [
        f"# {arguments.name}",
        "",
        f"`{recipe['network']}` trained on {len(trained.names)} base classes of {features.source['data']}, by",
        "",
        f"    {arguments.command}",
        "",
        f"seed {trained.seed}, {log['seconds'].sum() / 3600:.1f} hours on {arguments.hardware}. "
        "This page was written by `scripts/bundle_network.py`.",
        "",
        "| | |",
        "|---|---|",
        *(f"| schedule | {schedule(each)} |" for each in lineage(read(arguments.run))),
        f"| L2 | ½ · {recipe['weight_decay']:g} · ‖W‖² on the regularised layers"
        + (f", {recipe['last_decay']:g} on the last" if recipe["last_decay"] is not None else "")
        + " |",
        f"| augmentation | {', '.join(f'{key} {value}' for key, value in recipe['augmentation'].items())} |",
        f"| weights | {arguments.weights}"
        + (f" (decay {recipe['averaging']:g} a step)" if recipe["averaging"] else "")
        + ", stored as float16 |",
        f"| accuracy on 20 training images a class | {', '.join(f'{k} weights {v:.1%}' for k, v in both.items())} |",
        f"| files | {', '.join(f'{file} {size / 1e6:.1f} MB' for file, size in sizes.items())} |",
        f"| σ² of the base weights | {variance:.5f} |",
    ]
    if accuracy is not None:
        lines.append(f"| accuracy on {len(features.base_y):,} test images of the base classes | {accuracy:.2%} |")
    for shots, (mean, half) in zip(SHOTS, results, strict=True):
        lines.append(
            f"| 5-way {shots}-shot on the {len(features.names)} new classes, Gauss (iso) by MAP, {TASKS} tasks | "
            f"{mean:.2%} ± {half:.2%} |"
        )
    lines += [
        *by_hand,
        "",
        f"![loss and accuracy]({arguments.name}.png)",
        "",
        f"The figures behind it: [{arguments.name}.csv]({arguments.name}.csv).",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
