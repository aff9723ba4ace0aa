"""Truncated and mutated files: a `FormatError`, or a model; never another exception, a hang or a blow-up."""

from __future__ import annotations

import gzip
import io as bytes_io
import os
import pathlib
import random
import tempfile
import time
import zipfile

import numpy as np
import pytest

import gmlearn as gm
from gmlearn import io
from gmlearn.io import text as text_room
from gmlearn.registry import UnknownNameError

UAI = b"MARKOV\n3\n2 3 2\n3\n1 1\n2 0 1\n2 2 1\n\n3\n 0.5 0 2\n\n6\n 1 2 3 4 5 6\n6\n 1 2 3e-1 4 5 6\n"
WCSP = b"toy 3 3 4 100\n2 3 2\n1 1 5 1\n2 7\n-2 0 1 0 2\n0 1 4\n1 2 100\n0 3 0\n2 2 1 0 -1\n"
CFN = (b'{"problem": {"name": "t", "mustbe": "<100.0"}, "variables": {"x": ["a", "b"], "y": 3},\n'
       b'"functions": {"f": {"scope": ["x", "y"], "defaultcost": 0, "costs": ["a", 1, 4, 1, 2, 100.0]},\n'
       b'"g": {"scope": ["x", "y"], "costs": "f"}, "h": {"scope": [0], "costs": ["1.5", 2]}}}\n')
EVIDENCE = b"2 0 1 2 0\n"
STUMBLING_BLOCKS = [b"99999999999", b"-1", b" 1e999 ", b" nan ", b"[[[[", b'"', b"\x00", b"\xff\xfe", b"_", b" 0 ", b"2147483648",
                    b"9" * 5000, b"1e308 "]


@pytest.fixture
def quick_path():
    """A folder in memory where there is one: opening files would take most of the time."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield pathlib.Path(folder)


def npz_bytes(tmp_path) -> bytes:
    crf = gm.CRF([2, 3, 2]).add_unary([np.zeros(2), np.array([0, 1, np.inf]), np.ones(2)])
    crf.add(gm.Table([[0, 1], [2, 1]], np.arange(6.0).reshape(2, 3)))
    crf.add(gm.Truncated([[0, 2]], truncation=1, weight="smooth"))
    io.write(crf, tmp_path / "seed.npz", {"smooth": 2.0})
    return (tmp_path / "seed.npz").read_bytes()


def seeds(tmp_path) -> dict[str, bytes]:
    return {"m.uai": UAI, "m.wcsp": WCSP, "m.cfn": CFN, "m.uai.gz": gzip.compress(UAI, mtime=0), "m.npz": npz_bytes(tmp_path),
            "m.evid": EVIDENCE}


def attempt(path, content: bytes) -> bool:
    """Read `content` as a file of that name: is it a model? Anything but a model or a `FormatError` fails the test."""
    path.write_bytes(content)
    try:
        if path.suffix == ".evid":
            return bool(io.read_evidence(path, np.array([2, 3, 2])))
        crf = io.read(path)
    except (io.FormatError, UnknownNameError):
        return False
    weights = {name: np.zeros(shape) for name, shape in crf.layout.shapes.items()}
    energy = crf.energy(np.zeros(crf.n_vars, int), weights)
    assert not np.isnan(energy)
    return True


@pytest.mark.parametrize("name", ["m.uai", "m.wcsp", "m.cfn", "m.uai.gz", "m.npz", "m.evid"])
def test_every_prefix(quick_path, name):
    whole = seeds(quick_path)[name]
    assert attempt(quick_path / name, whole)
    read = [n for n in range(len(whole)) if attempt(quick_path / name, whole[:n])]
    # Only what cuts into the last number, or the white space after it, can still be a whole file.
    assert all(n >= len(whole.rstrip()) - 1 for n in read)


def mutate(rng: random.Random, content: bytes) -> bytes:
    """A few random edits: bytes changed, removed, repeated, or replaced by what parsers stumble over."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at:at + rng.randint(1, 8)]
        elif kind == 2:
            data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randint(1, 30)]
        elif kind == 3:
            data[at:at] = rng.choice(STUMBLING_BLOCKS)
        elif kind == 4 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at:at + 1] = bytes([rng.choice(b"0123456789 .-[]{}:,\n")])
    return bytes(data)


def mutate_members(rng: random.Random, content: bytes) -> bytes:
    """An archive in which one array is mutated and the checksums are right again."""
    out = bytes_io.BytesIO()
    with zipfile.ZipFile(bytes_io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            data = old.read(name)
            if name == chosen:  # keep the array's own header most of the time, else few cases get past it
                head = 0 if rng.random() < 0.2 else 128
                data = data[:head] + mutate_body(rng, data[head:])
            new.writestr(name, data)
    return out.getvalue()


def mutate_body(rng: random.Random, body: bytes) -> bytes:
    """The same number of bytes, some of them changed."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 3) if data else 0):
        data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 3, 48, 57, 127, 128, 240, 255, rng.randrange(256)])
    return bytes(data)


def fuzz(tmp_path, seed: int, cases: int, seconds: float) -> tuple[int, int]:
    """(cases tried, of which models)"""
    rng, start, models = random.Random(seed), time.monotonic(), 0
    contents = list(seeds(tmp_path).items())
    for case in range(cases):
        if time.monotonic() - start > seconds:
            return case, models
        name, content = contents[case % len(contents)]
        mutated = (mutate_members if name == "m.npz" and rng.random() < 0.8 else mutate)(rng, content)
        try:
            models += attempt(tmp_path / name, mutated)
        except Exception as error:
            raise AssertionError(f"seed {seed}, case {case}, {name}: {mutated!r}") from error
    return cases, models


def test_mutated_files(quick_path):
    cases, models = fuzz(quick_path, seed=1, cases=6000, seconds=20)
    assert 0 < models < cases


@pytest.mark.slow
def test_mutated_files_long(quick_path):
    cases, models = fuzz(quick_path, seed=time.time_ns() % 2**32, cases=1_000_000, seconds=600)
    print(f"{cases} cases, {models} of them models")
    assert cases > 1000


def test_gz_bombs_and_damage(put, monkeypatch):
    bomb = put("bomb.uai.gz", gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n1 1" + b" " * 100_000))
    io_model = io.read(put("fine.uai.gz", gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n1 1\n")))
    assert io_model.n_vars == 1
    monkeypatch.setattr(text_room, "SAFE_BYTES", 1000)
    with pytest.raises(io.FormatError, match="bytes after decompression, got more"):
        io.read(bomb)
    with pytest.raises(io.FormatError, match="a complete gzip archive"):
        io.read(put("cut.uai.gz", gzip.compress(UAI)[:-9]))
    with pytest.raises(io.FormatError, match="a complete gzip archive"):
        io.read(put("plain.uai.gz", UAI))
    monkeypatch.setattr(text_room, "MAX_TEXT_BYTES", 10)
    with pytest.raises(io.FormatError, match="at most 10 bytes, got more"):
        io.read(put("large.uai", UAI))
