"""How many processes a run has and on which devices, as asked for or as `torchrun` says."""

from __future__ import annotations

import os

from lightning_fabric import Fabric

from kshot.training.precision import Precision

__all__ = ["launch"]


def launch(device: str, devices: int, precision: Precision, *, grows: bool = False) -> Fabric:
    """Start the processes of a run, or meet those that `torchrun` has started.

    Args:
        device: "auto", "cpu", "cuda", "mps".
        devices: processes to start, one per device. Under `torchrun` its own numbers are taken, on all its machines.
        precision: Fabric's name for it.
        grows: whether some parameters have no gradient yet (progressive depth): several processes must expect it.

    """
    nodes = 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        nodes = int(os.environ["WORLD_SIZE"]) // devices
    # Named, because "auto" with one device on each of several machines would train one network in each.
    several = "ddp_find_unused_parameters_true" if grows else "ddp"
    strategy = several if devices * nodes > 1 else "auto"
    fabric = Fabric(accelerator=device, devices=devices, num_nodes=nodes, strategy=strategy, precision=precision)
    fabric.launch()
    return fabric
