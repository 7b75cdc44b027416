"""Which arithmetic to train in: the faster of float32 and bfloat16 on this machine, found by trying both.

A processor's flags do not settle it. Some have bfloat16 instructions that are slower than float32 through oneDNN; and
some virtual machines announce AMX instructions but hide the description of them, on which oneDNN crashes the process.
So the trial runs in a process of its own, and a crash there means float32.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Literal, cast

import torch
from torch import nn

from kshot.errors import UserError

__all__ = ["Precision", "choose"]

Precision = Literal["bf16-mixed", "32-true"]
NAMES: dict[str, Precision] = {"bf16": "bf16-mixed", "float32": "32-true"}


def choose(name: str, device: str, *, before: str | None = None) -> Precision:
    """Give Fabric's name of the precision `name`: "bf16", "float32", or "auto" for the faster one.

    `before` is what a run that goes on had until now: another trial might come out otherwise.
    """
    if name == "auto" and before in NAMES.values():
        return cast(Precision, before)
    if name in NAMES:
        return NAMES[name]
    if name != "auto":
        raise UserError(f"precision must be auto, bf16 or float32, not {name!r}")
    if device.startswith("cuda"):
        return "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true"
    return "bf16-mixed" if device in ("cpu", "auto") and _bf16_wins_on_cpu() else "32-true"


def _bf16_wins_on_cpu() -> bool:
    command = [sys.executable, "-m", "kshot.training.precision"]
    try:
        trial = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return False
    return trial.returncode == 0 and trial.stdout.strip() == "bf16"


def _seconds(*, bf16: bool) -> float:
    """Time one training step of a small convolutional network, the best of four after a first one."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(32, 64, 24, 24).to(memory_format=torch.channels_last)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = network(images).float().square().mean()
        loss.backward()
        times.append(time.perf_counter() - start)
    return min(times[1:])


if __name__ == "__main__":
    print("bf16" if _seconds(bf16=True) < _seconds(bf16=False) else "float32")
