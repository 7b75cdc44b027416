"""The record of a training run: a line per epoch in a CSV file that people and programs read, and a plot of it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from kshot.files import atomic_path

__all__ = ["Log"]

Row = Mapping[str, float | int]


class Log:
    """Rows of figures, one per epoch, kept in `path` as CSV and drawn beside it as PNG.

    Args:
        path: the CSV file. Rows already in it are kept up to `epochs`, so that a resumed run continues its curve.
        epochs: how many epochs of an earlier run to keep.

    """

    def __init__(self, path: Path, *, epochs: int = 0) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []
        if epochs and path.is_file():
            with path.open(newline="") as file:
                self.rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)][:epochs]

    def add(self, row: Row) -> None:
        """Append a row and write the file anew, atomically."""
        self.rows.append({key: float(value) for key, value in row.items()})
        with atomic_path(self.path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            writer.writeheader()
            writer.writerows({key: f"{value:.7g}" for key, value in entry.items()} for entry in self.rows)

    def line(self) -> str:
        """Give the last row as a line for a person."""
        row = self.rows[-1]
        parts = [
            f"epoch {row['epoch']:.0f}",
            f"{row['size']:.0f} px",
            f"loss {row['loss']:.4f}",
            f"accuracy {row['accuracy']:.1%}",
        ]
        for name, label in (("test_accuracy", "test"), ("test_accuracy_averaged", "test, averaged weights")):
            if name in row:
                parts.append(f"{label} {row[name]:.1%}")
        return ", ".join([*parts, f"{row['images_per_second']:.0f} images/s", f"{row['seconds']:.0f} s"])

    def draw(self, path: Path) -> None:
        """Draw loss and accuracy against the epoch."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"}):
            figure = Figure(figsize=(9, 3.4), layout="constrained")
            epochs = [row["epoch"] for row in self.rows]
            for axes, kind in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
                lines = {
                    "training images": kind,
                    "test images": f"test_{kind}",
                    "test, averaged weights": f"test_{kind}_averaged",
                }
                for (label, column), colour in zip(lines.items(), ("#0072B2", "#D55E00", "#009E73"), strict=True):
                    if column in self.rows[0]:
                        axes.plot(epochs, [row[column] for row in self.rows], label=label, color=colour)
                axes.set(
                    xlabel="epoch", ylabel="loss (nats)" if kind == "loss" else "accuracy", title=kind.capitalize()
                )
                axes.locator_params(axis="x", integer=True)
                axes.grid(alpha=0.3)
            axes.legend(frameon=False)
            with atomic_path(path) as temporary:
                figure.savefig(temporary, format=path.suffix.removeprefix("."), dpi=120)
