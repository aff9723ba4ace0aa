"""Damaged and hostile files: an error that names the file, or a sound model; never a crash, a
hang or a blow-up.
"""

from __future__ import annotations

import gzip
import io as bytes_io
import json
import os
import pathlib
import tempfile
import time
import zipfile

import numpy as np
import pytest
from fuzzing import UAI, attempt, fuzz, limited_time, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gmlearn import io
from gmlearn._utils import archive as archive_room
from gmlearn.io import text as text_room
from gmlearn.testing.mutations import npy

MODELS = (
    "m.uai",
    "m.wcsp",
    "m.cfn",
    "globals.wcsp",
    "m.bif",
    "m.xmlbif",
    "m.wcnf",
    "m.qpbo",
    "m.uai.xz",
    "m.uai.gz",
    "m.wcsp.gz",
    "m.cfn.gz",
    "m.npz",
    "m.evid",
    "sample.npz",
)
TRAINED = ("trained.npz",)
CHECKPOINTS = ("bcfw.checkpoint", "subgradient.checkpoint", "cutting-plane.checkpoint")
# numbers out of range may warn on their way to an error
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def quick_path():
    """A folder in memory where there is one: opening files would take most of the time."""
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize("name", MODELS)
def test_every_prefix(quick_path, name):
    whole = seeds(quick_path)[name]
    assert attempt(quick_path / name, whole)
    read = [n for n in range(len(whole)) if attempt(quick_path / name, whole[:n])]
    # Only what cuts into the last number, or the white space after it, can still be a whole file.
    assert all(n >= len(whole.rstrip()) - 1 for n in read)


@pytest.mark.parametrize("name", [*TRAINED, *CHECKPOINTS])
def test_prefixes_of_training_files(quick_path, name):
    whole = seeds(quick_path)[name]
    assert attempt(quick_path / name, whole)
    assert not any(attempt(quick_path / name, whole[:n]) for n in range(1, len(whole), 97))


@pytest.mark.parametrize(
    ("names", "cases"),
    [
        pytest.param(MODELS, 4000, id="models"),
        pytest.param(TRAINED, 400, id="trained"),
        pytest.param(CHECKPOINTS, 300, id="checkpoints"),
    ],
)
def test_mutated_files(quick_path, names, cases):
    tried, sound = fuzz(quick_path, seed=1, cases=cases, seconds=20, names=names.__contains__)
    assert 0 < sound < tried


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "seconds"),
    [
        pytest.param(MODELS, 400, id="models"),
        pytest.param(TRAINED, 100, id="trained"),
        pytest.param(CHECKPOINTS, 100, id="checkpoints"),
    ],
)
def test_mutated_files_long(quick_path, names, seconds):
    """A million cases or ten minutes, from another seed each time."""
    cases, sound = fuzz(
        quick_path,
        seed=time.time_ns() % 2**32,
        cases=1_000_000,
        seconds=seconds,
        names=names.__contains__,
    )
    print(f"{cases} cases, {sound} of them sound")
    assert cases > 1000


# ---------------------------------------------------------------------- made up rather than damaged

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["gmlearn-model", "table", "truncated", "potts", "smooth", "n_labels"])
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["potential", "values", "arrays", "weight", "truncation", "variables", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
blocks = st.fixed_dictionaries(
    {
        "potential": st.sampled_from(["table", "truncated", "potts", "difference", "pairwise"])
        | scalars,
        "values": trees,
        "arrays": st.lists(st.sampled_from(["variables", "values", "start", "shapes", "edges"])),
        "lists": st.lists(st.sampled_from(["edges", "x"]), max_size=1),
    }
)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
arrays = hnp.arrays(st.sampled_from([np.int64, np.float64, np.uint8, np.bool_, np.float32]), shapes)
headers = st.fixed_dictionaries(
    {
        "format": st.just("gmlearn-model"),
        "version": st.just(2),
        "blocks": st.lists(blocks | trees, max_size=2),
        "weights": st.none() | trees,
    }
)
names = st.sampled_from(
    [f"block0.{name}" for name in ("variables", "values", "start", "shapes", "edges")]
    + ["weights0"]
)


@settings(deadline=None, max_examples=150)
@given(
    header=headers | trees,
    states=hnp.arrays(np.int64, st.integers(0, 3), elements=st.integers(-1, 3)),
    unary=arrays,
    more=st.dictionaries(names, arrays),
)
def test_made_up_archives(quick_path, header, states, unary, more):
    out = bytes_io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    if unary.dtype == np.float64:
        unary = np.resize(unary.ravel(), max(0, int(states.sum())))
    with zipfile.ZipFile(out, "w") as made:
        for name, array in {
            "header": text,
            "n_states": states,
            "unary": unary,
            "constant": np.zeros(1),
            **more,
        }.items():
            made.writestr(name + ".npy", npy(array))
    with limited_time(10):
        attempt(quick_path / "m.npz", out.getvalue())


words = st.sampled_from(
    [
        "MARKOV",
        "BAYES",
        "0",
        "1",
        "2",
        "3",
        "-1",
        "0.5",
        "1e3",
        "nan",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "x",
        "y",
        "scope",
        "costs",
        "functions",
        "variables",
        "problem",
        "mustbe",
        "<9",
    ]
)


@settings(deadline=None, max_examples=150)
@given(
    name=st.sampled_from(["m.uai", "m.wcsp", "m.cfn", "m.evid"]),
    content=st.binary(max_size=60)
    | st.lists(words | st.integers().map(str), max_size=40).map(lambda w: " ".join(w).encode()),
)
def test_made_up_texts(quick_path, name, content):
    with limited_time(10):
        attempt(quick_path / name, content)


# ---------------------------------------------------------------------- bombs


def test_gz_bombs_and_damage(put, monkeypatch):
    bomb = put("bomb.uai.gz", gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n1 1" + b" " * 100_000))
    io_model = io.read(put("fine.uai.gz", gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n1 1\n")))
    assert io_model.n_vars == 1
    monkeypatch.setattr(text_room, "SAFE_BYTES", 1000)
    with pytest.raises(io.FormatError, match=r"bytes after decompression .*, got more"):
        io.read(bomb)
    with pytest.raises(io.FormatError, match=r"a complete \.gz archive"):
        io.read(put("cut.uai.gz", gzip.compress(UAI)[:-9]))
    with pytest.raises(io.FormatError, match=r"a complete \.gz archive"):
        io.read(put("plain.uai.gz", UAI))
    monkeypatch.setattr(text_room, "MAX_TEXT_BYTES", 10)
    with pytest.raises(io.FormatError, match="at most 10 bytes, got more"):
        io.read(put("large.uai", UAI))


KIND = "gmlearn trained model"


def zipped(members: dict[str, bytes], path: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return path


def test_archives_that_unfold_are_refused_before_they_do(tmp_path, monkeypatch):
    """A megabyte of zeros in a kilobyte, and a shape of 8 TB that no byte backs."""
    header = npy(np.frombuffer(json.dumps({"kind": KIND}).encode(), np.uint8))
    bomb = zipped({"header.npy": header, "x.npy": npy(np.zeros(2**17))}, tmp_path / "bomb.npz")
    assert archive_room.load_arrays(bomb, KIND)[1]["x"].size == 2**17
    monkeypatch.setattr(archive_room, "SAFE_BYTES", 1000)
    with pytest.raises(
        ValueError,
        match=r"bomb\.npz: not a gmlearn trained model file, or damaged .*at most .* bytes of arrays",
    ):
        archive_room.load_arrays(bomb, KIND)
    monkeypatch.undo()
    huge = npy(np.zeros(2)).replace(b"(2,), }" + b" " * 12, b"(1000000000000,), }")
    with pytest.raises(ValueError, match="fill its 16 bytes"):
        archive_room.load_arrays(
            zipped({"header.npy": header, "x.npy": huge}, tmp_path / "huge.npz"), KIND
        )


def test_headers_that_unfold_into_objects_are_refused(tmp_path):
    text = b'{"kind": "' + KIND.encode() + b'", "x": [' + b"{}," * 10**6 + b"0]}"
    path = zipped({"header.npy": npy(np.frombuffer(text, np.uint8))}, tmp_path / "header.npz")
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match=r"header\.npz: .*at most 2097152 bytes of header"):
        archive_room.load_arrays(path, KIND)


def test_an_archive_that_lies_about_its_sizes(tmp_path):
    """The directory declares 10 bytes, the stream holds a megabyte: no more than was declared is
    unpacked.
    """
    path = zipped({"x.npy": npy(np.zeros(2**17))}, tmp_path / "lie.npz")
    data = path.read_bytes()
    size = (2**20 + 128).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"lie\.npz"):
        archive_room.load_arrays(path, KIND)


@pytest.mark.parametrize("member", ["x.pkl", "../x.npy/..", "x.npy.exe"])
def test_members_that_are_no_arrays(tmp_path, member):
    with pytest.raises(ValueError, match="stored or deflated"):
        archive_room.read_archive(
            zipped({member: b"cos\nsystem\n(S'true'\ntR."}, tmp_path / "odd.npz")
        )


EXPLODED = []


class Bomb:
    """Unpickling it leaves a trace."""

    def __reduce__(self):
        return explode, ()


def explode():
    EXPLODED.append("here")


def test_nothing_in_a_file_is_executed(tmp_path):
    """An array of objects is pickled code; it is refused by its header alone."""
    stream = bytes_io.BytesIO()
    np.save(stream, np.array([Bomb()], object), allow_pickle=True)
    np.load(bytes_io.BytesIO(stream.getvalue()), allow_pickle=True)
    assert EXPLODED == ["here"]  # it is one
    header = npy(np.frombuffer(json.dumps({"kind": KIND}).encode(), np.uint8))
    path = zipped({"header.npy": header, "x.npy": stream.getvalue()}, tmp_path / "pickle.npz")
    with pytest.raises(ValueError, match=r"pickle\.npz: .*numbers in the array 'x\.npy'"):
        archive_room.load_arrays(path, KIND)
    assert EXPLODED == ["here"]
