"""An ONNX graph at work: images in, one vector of features for each out, on the processor or another device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kshot.errors import FileFormatError, UserError

if TYPE_CHECKING:
    import onnxruntime

__all__ = ["Session", "available_cores", "check_device", "quiet_options"]

# What a user calls a device, and the ONNX Runtime execution provider that runs on it.
_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "directml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
_NUMBERS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class Session:
    """A graph with one input of images and the features as its first output.

    Args:
        graph: bytes of the ONNX graph.
        name: file or backbone, for messages.
        device: "cpu", "cuda", "cuda:1", ...
        threads: of the processor; by default as many as there are cores for this process.

    """

    def __init__(self, graph: bytes, *, name: str, device: str = "cpu", threads: int | None = None) -> None:
        import onnxruntime

        provider, settings = check_device(device)
        options = quiet_options()
        options.intra_op_num_threads = threads or available_cores()
        options.inter_op_num_threads = 1
        # Threads that wait do not spin: the cores are for decoding the next photographs, and for other programs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            # Without its fallback, which would print to standard output and go on with another device.
            self._session = onnxruntime.InferenceSession(
                graph, options, providers=[(provider, settings)], enable_fallback=0
            )
        # ONNX Runtime's exceptions have no common base but Exception.
        except Exception as error:
            raise FileFormatError(f"ONNX Runtime cannot load the graph of {name}: {_first_line(error)}") from None
        if provider not in self._session.get_providers():
            raise UserError(f"device {device!r} does not work here: ONNX Runtime found its libraries missing")
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _NUMBERS:
            found = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs) or "none"
            raise FileFormatError(
                f"{name} must take one batch of images of floating-point numbers; its inputs: {found}"
            )
        self._name = name
        self._input = inputs[0].name
        self._number = _NUMBERS[inputs[0].type]
        self._output = self._session.get_outputs()[0].name
        self.shape = tuple(inputs[0].shape)

    @property
    def fixed_batch(self) -> int | None:
        """The only number of images that the graph takes at once, where it was exported so."""
        return self.shape[0] if isinstance(self.shape[0], int) and self.shape[0] > 0 else None

    def run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map normalised images (n, 3, h, w) to features (n, p)."""
        fixed = self.fixed_batch
        if fixed is None or len(images) == fixed:
            return self._run(images)
        parts = []
        for start in range(0, len(images), fixed):
            part = images[start : start + fixed]
            padded = np.concatenate([part, np.zeros((fixed - len(part), *part.shape[1:]), part.dtype)])
            parts.append(self._run(padded)[: len(part)])
        return np.concatenate(parts)

    def _run(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        try:
            (found,) = self._session.run([self._output], {self._input: images.astype(self._number, copy=False)})
        except Exception as error:
            raise UserError(f"the graph of {self._name} failed on its images: {_first_line(error)}") from None
        found = np.asarray(found)
        # Global pooling often leaves axes of length one behind the features.
        if found.ndim < 2 or len(found) != len(images) or found.size != found.shape[0] * found.shape[1]:
            raise FileFormatError(
                f"{self._name} gives an array of shape {found.shape} for {len(images)} images, not one vector for each"
            )
        return found.reshape(len(found), -1).astype(np.float32, copy=False)


def check_device(device: str) -> tuple[str, dict[str, Any]]:
    """Give the execution provider of a device and its settings, or say which devices there are."""
    import onnxruntime

    kind, _, number = device.partition(":")
    available = onnxruntime.get_available_providers()
    provider = _PROVIDERS.get(kind)
    if provider in available and (not number or number.isdecimal()):
        assert provider is not None
        return provider, {"device_id": number} if number else {}
    known = ", ".join(name for name, candidate in _PROVIDERS.items() if candidate in available)
    hint = (
        '; graphics cards need another build of ONNX Runtime: pip install "onnxruntime-gpu"' if kind == "cuda" else ""
    )
    raise UserError(f"there is no device {device!r} for ONNX Runtime here: choose one of {known}{hint}")


def available_cores() -> int:
    """Count the processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def quiet_options() -> onnxruntime.SessionOptions:
    """Give session options under which ONNX Runtime keeps its warnings to itself; errors become exceptions anyway."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
