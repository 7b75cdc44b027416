"""Where a run computes and how: its processes, as asked for or as `torchrun` says, their devices and precision."""

from __future__ import annotations

import os
from pathlib import Path

from lightning_fabric import Fabric

from kshot.training import checkpoint
from kshot.training.precision import Precision, choose

__all__ = ["launch"]


def launch(
    device: str, devices: int, precision: str, *, resumed: Path | None, grows: bool = False
) -> tuple[Fabric, Precision]:
    """Start the processes of a run, or meet those that `torchrun` has started; give the precision chosen, too.

    Args:
        device: "auto", "cpu", "cuda", "mps".
        devices: processes to start, one per device. Under `torchrun` its own numbers are taken, on all its machines.
        precision: "auto", "bf16" or "float32".
        resumed: folder of the run that goes on, which keeps what "auto" chose; None for a new one.
        grows: whether some parameters have no gradient yet (progressive depth): several processes must expect it.

    """
    before = checkpoint.precision(resumed) if resumed is not None and precision == "auto" else None
    chosen = choose(precision, device, before=before)
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    # Named, because "auto" with one device on each of several machines would train one network in each.
    several = "ddp_find_unused_parameters_true" if grows else "ddp"
    strategy = several if devices * nodes > 1 else "auto"
    fabric = Fabric(accelerator=device, devices=devices, num_nodes=nodes, strategy=strategy, precision=chosen)
    fabric.launch()
    return fabric, chosen
