"""Damage to archives: other numbers, shapes and types in an array, another header, other bytes."""

from __future__ import annotations

import functools
import io
import json
import random
import zipfile
from typing import Any

import numpy as np

#: what numbers of a file are replaced by
WHOLE = (0, -1, 1, 2, 3, 7, 100, 10**6, 10**9, 2**31, 2**62, -(2**40), -(2**62))
REAL = (0.0, -1.0, 0.5, 2.5, 100.0, 1e9, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 1e99)


def mutate_archive(rng: random.Random, content: bytes) -> bytes:
    """A sound zip archive in which one array, or the JSON header, is not what it was."""
    out = io.BytesIO()
    members = _members(content)
    with zipfile.ZipFile(out, "w") as new:
        names = list(members)
        chosen = "header.npy" if rng.random() < 0.3 else rng.choice(names)
        if rng.random() < 0.05:
            names.remove(chosen)
        for name in names:
            data = members[name]
            if name == chosen:
                data = (
                    _edit_header if name == "header.npy" and rng.random() < 0.8 else _edit_array
                )(rng, data)
            new.writestr(
                name,
                data,
                rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]) if name == chosen else None,
            )
    return out.getvalue()


@functools.lru_cache(maxsize=512)
def _members(content: bytes) -> dict[str, bytes]:
    """The files of an archive; kept, since thousands of cases start from one."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy(array: np.ndarray) -> bytes:
    """An array as a ``.npy`` file."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _edit_array(rng: random.Random, data: bytes) -> bytes:
    """Other numbers, another shape, another type, or bytes that are no array."""
    kind = rng.choice([0, 1, 2, 3, 4, 4, 4, 4])
    if kind == 0:
        # mostly behind the array's own header, else few cases get past it
        head = rng.choice([0, 128])
        return data[:head] + _change_bytes(rng, data[head:])
    array = np.load(io.BytesIO(data), allow_pickle=False)
    if kind == 1:
        length = rng.choice([0, 1, max(0, array.size - 1), array.size + 1, 2 * array.size])
        array = np.resize(array, length) if array.size else np.zeros(length, array.dtype)
    elif kind == 2:
        with np.errstate(all="ignore"):
            types: list[Any] = [bool, np.int8, np.int32, np.int64, np.uint64, np.float32, float]
            array = array.astype(rng.choice(types))
    elif kind == 3:
        array = array.reshape(
            rng.choice([(-1,), (1, -1), (-1, 1), array.shape[::-1]]) if array.size else (0, 3)
        )
    elif array.size and array.dtype.kind in "iuf":
        choices = {"i": WHOLE, "u": (0, 1, 255), "f": REAL}[array.dtype.kind]
        at = rng.randrange(array.size)
        array.reshape(-1)[at] = rng.choice(choices) if array.dtype.itemsize == 8 else 1
    return npy(array)


def _change_bytes(rng: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(rng.randint(1, 3) if data else 0):
        data[rng.randrange(len(data))] = rng.choice(
            [0, 1, 2, 3, 48, 57, 127, 128, 240, 255, rng.randrange(256)]
        )
    return bytes(data)


def _edit_header(rng: random.Random, data: bytes) -> bytes:
    """Some value of the JSON header replaced by one of another kind, moved, renamed or left out."""
    header = json.loads(np.load(io.BytesIO(data)).tobytes())
    for _ in range(rng.randint(1, 2)):
        _edit_value(rng, header)
    return npy(np.frombuffer(json.dumps(header).encode(), np.uint8))


def _places(node: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything within nested dicts and lists."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    found = [(node, key) for key in keys]
    inner = (node[key] for key in keys if isinstance(node[key], (dict, list)))
    return found + [place for child in inner for place in _places(child)]


def _edit_value(rng: random.Random, header: Any) -> None:
    places = _places(header)
    if not places:
        return
    node, key = rng.choice(places)
    if rng.random() < 0.15:
        del node[key]
    elif rng.random() < 0.15 and isinstance(node, dict):
        node[rng.choice(["kind", "", "__class__", "n_labels", "size"])] = node.pop(key)
    else:
        node[key] = rng.choice(
            [
                None,
                True,
                0,
                -1,
                1,
                3,
                10**9,
                10**30,
                -(2**63),
                0.5,
                float("inf"),
                float("nan"),
                "",
                "x",
                "table",
                "u",
                [],
                {},
                [0] * 5,
                {"a": {}},
                "../../etc/passwd",
                "x" * 3000,
            ]
        )
