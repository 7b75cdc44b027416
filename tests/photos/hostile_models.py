"""Three hundred ways to be unkind to a program that reads files: damaged models, one after the other."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

Parts = tuple[dict[str, Any], dict[str, Any], bytes]
ODD_VALUES: tuple[Any, ...] = (None, -1, 1e308, float("nan"), "x", [], {}, [[1]], {"a": "b"}, [None] * 3, True)


def taken_apart(content: bytes) -> Parts:
    """Give a model file's header of arrays, its own header, and its data."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    own = json.loads(header.pop("__metadata__")["kshot"])
    return header, own, content[8 + length :]


def put_together(arrays: dict[str, Any], own: Any, data: bytes) -> bytes:
    text = own if isinstance(own, str) else json.dumps(own)
    header = json.dumps({"__metadata__": {"kshot": text}, **arrays}).encode()
    return struct.pack("<Q", len(header)) + header + data


def damaged_bytes(content: bytes) -> Iterator[bytes]:
    """Cut it short, change its bytes, and lie about its header's length: 118 files."""
    for cut in np.linspace(0, len(content) - 1, 30).astype(int):
        yield content[:cut]
    rng = np.random.default_rng(0)
    (length,) = struct.unpack("<Q", content[:8])
    for number in range(80):
        changed = bytearray(content)
        limit = length + 8 if number % 2 else len(content)
        for place in rng.integers(0, limit, 1 + number % 5):
            changed[place] = rng.integers(0, 256)
        yield bytes(changed)
    for claimed in (0, 1, 7, length - 1, length + 1, len(content), 2**40, 2**63, 2**64 - 1):
        yield struct.pack("<Q", claimed) + content[8:]


def damaged_headers(content: bytes) -> Iterator[bytes]:
    """Take away and replace every statement of its own header: about 150 files."""
    arrays, own, data = taken_apart(content)
    for key in own:
        less = {name: value for name, value in own.items() if name != key}
        yield put_together(arrays, less, data)
        for odd in ODD_VALUES:
            yield put_together(arrays, {**own, key: odd}, data)
    for inner in ("backbone", "heads", "calibration"):
        for key in own[inner]:
            changed = copy.deepcopy(own)
            del changed[inner][key]
            yield put_together(arrays, changed, data)
            for odd in ODD_VALUES[:6]:
                changed[inner][key] = odd
                yield put_together(arrays, changed, data)
    for text in ("[" * 100_000, "{" * 100_000, "null", "[]", '"x"', "NaN", '{"kind": "photos"}', "\ud800", "\x00"):
        yield put_together(arrays, text, data)
    yield put_together(arrays, {**own, "classes": own["classes"][:1]}, data)
    yield put_together(arrays, {**own, "classes": [*own["classes"], "zebra"]}, data)
    yield put_together(arrays, {**own, "classes": ["\x1b[2J\n" + name for name in own["classes"]]}, data)
    yield put_together(arrays, {**own, "set_aside": [[10**9, "x"], [-5, "y"]]}, data)
    yield put_together(arrays, {**own, "format": 99, "kshot": "9.0\nrm -rf /"}, data)
    yield put_together(arrays, {**own, "format": float("inf")}, data)
    yield put_together(arrays, {**own, "kshot": "\x1b[2J0.1"}, data)
    yield put_together(arrays, {**own, "backbone": {**own["backbone"], "name": "\x1b]0;x", "hash": "\x1b[2J"}}, data)


def damaged_arrays(content: bytes) -> Iterator[bytes]:
    """Change shapes, kinds of numbers and numbers of its arrays, and take arrays away: about 60 files."""
    arrays, own, data = taken_apart(content)
    for name, about in arrays.items():
        start, end = about["data_offsets"]
        yield put_together({other: value for other, value in arrays.items() if other != name}, own, data)
        for shape in ([], [0], [2**40, 2**40], [end - start], [1, 1, 1], [*about["shape"], 1], about["shape"][::-1]):
            yield put_together({**arrays, name: {**about, "shape": shape}}, own, data)
        yield put_together({**arrays, name: {**about, "data_offsets": [start, 2**50]}}, own, data)
        yield put_together({**arrays, name: {**about, "data_offsets": [end, start]}}, own, data)
        for kind in ("I32", "U8", "F16", "BF16", "F4", "OBJECT"):
            yield put_together({**arrays, name: {**about, "dtype": kind}}, own, data)
        yield put_together(arrays | {name: {**about, "dtype": "BF16", "shape": [(end - start) // 2]}}, own, data)
        yield put_together(arrays | {name: {**about, "dtype": "F8_E4M3", "shape": [end - start]}}, own, data)
        for filling in (b"\xff", b"\x7f", b"\x00"):
            yield put_together(arrays, own, data[:start] + filling * (end - start) + data[end:])


def unjudged(content: bytes) -> bytes:
    """Give a whole model of which no photograph was left out."""
    import safetensors.numpy

    _, own, _ = taken_apart(content)
    tensors = {**safetensors.numpy.load(content), "left_out": np.empty((0, 0), np.float32)}
    return safetensors.numpy.save(tensors, metadata={"kshot": json.dumps(own)})


def narrow(content: bytes, width: int) -> bytes:
    """Give a whole model of another backbone: as many classes, but of `width` features."""
    import safetensors.numpy

    _, own, _ = taken_apart(content)
    tensors = safetensors.numpy.load(content)
    for name in ("features", "closed_weights", "joint_weights"):
        if name in tensors:
            tensors[name] = np.ascontiguousarray(np.resize(tensors[name], (len(tensors[name]), width)))
    return safetensors.numpy.save(tensors, metadata={"kshot": json.dumps(own)})
