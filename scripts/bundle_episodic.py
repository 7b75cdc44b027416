"""Bundle trained episodic methods: float16 weights with their predictions, the curve, a model card.

For each run folder of `kshot train --method ...` it writes src/kshot/assets/episodic/NAME.safetensors (NAME such as
protonet-cifar100-1shot) and docs/models/NAME.{md,csv,png}. The predictions kept in the file, on the tasks of
`kshot.evaluate` with its defaults, are those of the float16 weights in the same file. The tables of all of them are
made by `kshot reproduce`. With CIFAR-100 the untrained networks are bundled too.

    python scripts/bundle_episodic.py RUN... --data DIR --hardware "one CPU core"
    python scripts/bundle_episodic.py RUN... --data DIR --features resnet34-miniimagenet --hardware "one CPU core"
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import kshot
from kshot.datasets.splits import open_data
from kshot.datasets.tasks import draw_tasks
from kshot.evaluation.episodic import Episodic
from kshot.training.batches import Normalisation
from kshot.training.episodic import UNTRAINED
from kshot.training.episodic.methods import build_method, from_model, restore_method, to_model
from kshot.training.episodic.model_file import EpisodicModel
from kshot.training.episodic.predict import predict
from kshot.training.episodic.recipe import recipe_for

ROOT = Path(__file__).resolve().parent.parent
ASSETS, MODELS = ROOT / "src/kshot/assets/episodic", ROOT / "docs/models"
TASKS, QUERIES, WAYS = 600, 15, 5


def main() -> None:
    parser = argparse.ArgumentParser(description="Bundle trained episodic methods.")
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--data", type=Path, required=True, help="folder of the images")
    parser.add_argument("--features", default="vgg-cifar100", help="features whose rows the tasks refer to")
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5], help="numbers of shots to keep predictions of")
    parser.add_argument("--weights", choices=["averaged", "raw"], default="averaged")
    parser.add_argument("--hardware", default="two CPU cores", help="what it ran on, for the model card")
    arguments = parser.parse_args()
    features = kshot.Features.load(arguments.features)
    split = open_data(arguments.data)
    assert split.new is not None and split.new.ids == tuple(features.source["images"])
    for folder in (ASSETS, MODELS):
        folder.mkdir(parents=True, exist_ok=True)
    for run in arguments.runs:
        bundle(run, split, features, arguments)
    untrained = zip(UNTRAINED, ("conv4-cifar100", "conv4-32-cifar100"), strict=True)
    for name, network in untrained if split.source.startswith("cifar100") else ():
        bundle_untrained(name, network, split, features, arguments.shots)


def bundle(run: Path, split: Any, features: kshot.Features, arguments: argparse.Namespace) -> None:
    """Write a run's model, with its predictions, and its card."""
    trained, log = restore_method(run), pd.read_csv(run / "log.csv")
    assert trained.names == split.base.names, f"{run} was trained on other classes than {split.source}'s base classes"
    recipe = trained.recipe
    data = split.source.split()[0]
    name = f"{recipe['method']}-{data}-{recipe['shots']}shot"
    command = f"kshot train --method {recipe['method']} --ways {recipe['ways']} --shots {recipe['shots']} --data {data}"
    usual = recipe_for(recipe["method"], data, shots=recipe["shots"]).to_json()
    changed = [key for key in ("size", "epochs", "learning_rate") if recipe[key] != usual[key]]
    command += "".join(f" --{key.replace('_', '-')} {recipe[key]:g}" for key in changed)
    provenance = {"command": command, "seconds": float(log["seconds"].sum()), "hardware": arguments.hardware}
    model = to_model(trained, weights=arguments.weights, data=split.source, **provenance)
    model = with_predictions(model, ASSETS / f"{name}.safetensors", split, features, arguments.shots)
    shutil.copy(run / "log.csv", MODELS / f"{name}.csv")
    shutil.copy(run / "curves.png", MODELS / f"{name}.png")
    card = model_card(name, model, features, arguments.shots, (ASSETS / f"{name}.safetensors").stat().st_size)
    (MODELS / f"{name}.md").write_text(card)
    print(card)


def bundle_untrained(name: str, network: str, split: Any, features: kshot.Features, shots: list[int]) -> None:
    """Write the network before training, drawn with seed 0, as what training has to beat."""
    recipe = {"method": name, "network": network, "size": 32, "ways": WAYS, "shots": 0}
    torch.manual_seed(0)
    weights = {name: value.numpy() for name, value in build_method(recipe).state_dict().items()}
    normalisation = Normalisation.of(split.base.images)
    model = EpisodicModel(
        recipe, split.base.names, normalisation.mean, normalisation.std, weights, split.source, {"seed": 0}
    )
    path = ASSETS / f"{name}-{split.source.split()[0]}.safetensors"
    with_predictions(model, path, split, features, shots)


def with_predictions(
    model: EpisodicModel, path: Path, split: Any, features: kshot.Features, shots: list[int]
) -> EpisodicModel:
    """Write the weights as float16, read them back, predict with those, and write both."""
    model.save(path, dtype="float16")
    stored = EpisodicModel.load(path)
    method, normalisation = from_model(stored)
    for k in shots:
        tasks = draw_tasks(features.y, ways=WAYS, shots=k, queries=QUERIES, tasks=TASKS, seed=0)
        proba = predict(method, split.new.images, tasks, normalisation=normalisation, size=stored.recipe["size"])
        stored = stored.with_predictions(features.source["images"], tasks, proba)
    stored.save(path, dtype="float16")
    return replace(stored, weights=EpisodicModel.load(path).weights)


def model_card(name: str, model: EpisodicModel, features: kshot.Features, shots: list[int], size: int) -> str:
    """Write the card; every figure in it comes from the bundled file."""
    recipe, made = model.recipe, model.provenance
    table = kshot.evaluate(
        features, [Episodic(name, model)], ways=WAYS, shots=shots, tasks=TASKS, queries=QUERIES
    ).set_index("shots")
    lines = [
        f"# {name}",
        "",
        f"`{recipe['method']}` on `{recipe['network']}`, trained by episodes from {len(model.names)} base classes of "
        f"{model.data}, by",
        "",
        f"    {made['command']}",
        "",
        f"seed {made['seed']}, {made['seconds'] / 60:.0f} minutes on {made['hardware']}. This page was written by "
        "`scripts/bundle_episodic.py`.",
        "",
        "| | |",
        "|---|---|",
        f"| episodes | {made['epochs']} × {recipe['episodes']} of {recipe['ways']} classes, {recipe['shots']} examples "
        f"and {recipe['queries']} queries of each; {recipe['batch']} a step |",
        f"| optimiser | Adam, rate {recipe['learning_rate']:g} after a warm-up over {recipe['warmup']:.0%}, one cosine "
        f"to zero; gradient norm {'at most ' + format(recipe['clip'], 'g') if recipe['clip'] else 'free'} |",
        f"| augmentation | {', '.join(f'{key} {value}' for key, value in recipe['augmentation'].items())} |",
        f"| weights | {made['weights']} (decay {recipe['averaging']:g} a step), stored as float16; file "
        f"{size / 1e6:.1f} MB with predictions |",
    ]
    for k in shots:
        row = table.loc[k]
        lines.append(
            f"| 5-way {k}-shot on the {len(features.names)} new classes, {TASKS} tasks | {row['accuracy']:.2%} ± "
            f"{row['accuracy_ci95']:.2%}, log-likelihood {row['log_likelihood']:.3f}, ECE {row['ece']:.3f} |"
        )
    figures = f"The figures behind it: [{name}.csv]({name}.csv)."
    return "\n".join([*lines, "", f"![loss and accuracy]({name}.png)", "", figures, ""])


if __name__ == "__main__":
    main()
