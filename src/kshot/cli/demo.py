"""`kshot demo`: phases 2 to 4 on the bundled CIFAR-100 features, the main methods at 1, 5 and 10 shots."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]

METHODS = {
    "gauss-iso": "the paper's method: isotropic Gaussian prior",
    "gauss-iso-calibrated": "the same with scale and temperature fitted on base classes",
    "gauss-full": "full covariance, normal-inverse-Wishart mode",
    "student-t": "the same, integrated over mean and covariance",
    "gmm-3-iso": "mixture of three isotropic Gaussians",
    "laplace-diag": "Laplace prior",
    "logreg-ovr": "scikit-learn's logistic regression as of 2017",
    "nearest": "nearest neighbour, cosine distance",
}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the table (CSV) and the picture.")] = Path("report"),
    tasks: Annotated[int, typer.Option(min=2, help="Tasks at each number of shots.")] = 600,
    seed: Annotated[int, typer.Option(min=0, help="Decides the tasks.")] = 0,
) -> None:
    """Learn five new CIFAR-100 classes from 1, 5 and 10 examples, 600 times, by the paper's methods and baselines."""
    from rich.console import Console

    from kshot.cli.outputs import check_folder_writable
    from kshot.cli.tables import results_table
    from kshot.evaluation.runner import run, table
    from kshot.features import Features
    from kshot.plots.style import save
    from kshot.plots.summary import summary_figure

    check_folder_writable(out, "--out")
    out.mkdir(parents=True, exist_ok=True)  # before the work
    start = time.perf_counter()
    # A pipe has no width: give the table the room it needs.
    console, progress = Console(width=None if sys.stdout.isatty() else 110), Console(stderr=True)
    features = Features.load("vgg-cifar100")
    assert features.base_weights is not None
    classes, width = features.base_weights.shape
    console.print(
        f"vgg-cifar100: {classes} base classes with {width} weights each make the prior; "
        f"{len(features.names)} new classes.\n{tasks} tasks: 5 new classes, 1, 5 or 10 examples of each, 75 queries.\n",
        soft_wrap=True,
    )
    with progress.status("...") as status:
        outcomes = list(
            run(
                features,
                list(METHODS),
                tasks=tasks,
                seed=seed,
                progress=lambda method, shots: status.update(f"{method}, {shots} examples per class"),
            )
        )
    results = table(outcomes)
    for method, meaning in METHODS.items():
        console.print(f"  {method:<22}{meaning}")
    console.print()
    console.print(results_table(results))
    results.to_csv(out / "demo.csv", index=False)
    curves = {outcome.method: outcome.curve() for outcome in outcomes if outcome.shots == 5}
    title = f"CIFAR-100: five new classes at a time, {tasks} tasks"
    save(summary_figure(results, curves, shots=5, title=title), out / "demo.png")
    seconds = time.perf_counter() - start
    console.print(f"\n{out / 'demo.csv'}, {out / 'demo.png'}: accuracy, likelihood and calibration. {seconds:.0f} s")
