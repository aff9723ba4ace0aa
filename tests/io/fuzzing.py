"""Whole files of every format, ways to damage them, and what a reader may do with the result.

A case ends well if the reader gives a sound object, or an error of its own kind that names the
file. Another exception, a case of more than `SLOW` seconds (a hang), memory beyond `MAX_GROWTH` or
a crash of the interpreter does not.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import pathlib
import random
import re
import resource
import signal
import time
from collections.abc import Callable

import numpy as np

import gmlearn as gm
from gmlearn import io
from gmlearn.registry import UnknownNameError
from gmlearn.testing.mutations import mutate_archive

#: seconds for one case, and bytes by which the process may grow over all cases
SLOW, MAX_GROWTH = 10.0, 2**29

UAI = b"MARKOV\n3\n2 3 2\n3\n1 1\n2 0 1\n2 2 1\n\n3\n 0.5 0 2\n\n6\n 1 2 3 4 5 6\n6\n 1 2 3e-1 4 5 6\n"
WCSP = b"toy 3 3 4 100\n2 3 2\n1 1 5 1\n2 7\n-2 0 1 0 2\n0 1 4\n1 2 100\n0 3 0\n2 2 1 0 -1\n"
CFN = (
    b'{"problem": {"name": "t", "mustbe": "<100.0"}, "variables": {"x": ["a", "b"], "y": 3},\n'
    b'"functions": {"f": {"scope": ["x", "y"], "defaultcost": 0, "costs": ["a", 1, 4, 1, 2, '
    b"100.0]},\n"
    b'"g": {"scope": ["x", "y"], "costs": "f"}, "h": {"scope": [0], "costs": ["1.5", 2]}}}\n'
)
GLOBALS = (
    b"toy 4 3 5 100\n3 2 3 3\n4 0 1 2 3 -1 salldiff var 3\n3 0 2 3 -1 wsum lin 2 <= 3\n"
    b"4 0 1 2 3 -1 samong var 3 1 2 2 0 2\n2 1 2 -1 >= 1 2\n3 1 2 3 -1 knapsack 2 1 2 -1\n"
)
BIF = (
    b"network n { }\nvariable A { type discrete [ 2 ] { a, b }; }\n"
    b"variable B { type discrete [ 3 ] { r, g, b }; }\nprobability ( A ) { table 0.2, 0.8; }\n"
    b"probability ( B | A ) {\n(a) 0.1, 0.2, 0.7;\ndefault 0.5, 0.5, 0;\n}\n"
)
XMLBIF = (
    b"<BIF><NETWORK><VARIABLE><NAME>A</NAME><OUTCOME>a</OUTCOME><OUTCOME>b</OUTCOME></VARIABLE>\n"
    b"<DEFINITION><FOR>A</FOR><TABLE>0.2 0.8</TABLE></DEFINITION></NETWORK></BIF>"
)
WCNF = b"c text\np wcnf 4 4 100\n4 1 -2 0\n2 -1 2 -3 0\n5 -3 2 1 -4 0\n100 4 3 1 2 0\n"
QPBO = b"3 4\n1 1 -2.0\n1 2 1.5\n2 3 -1\n3 3 5\n"
EVIDENCE = b"2 0 1 2 0\n"
STUMBLING_BLOCKS = [
    b"99999999999",
    b"-1",
    b" 1e999 ",
    b" nan ",
    b"[[[[",
    b'"',
    b"\x00",
    b"\xff\xfe",
    b"_",
    b" 0 ",
    b"2147483648",
    b"9" * 5000,
    b"1e308 ",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"4294967295",
    b"__import__('os')",
    b"{" * 3000,
    b"[" * 3000,
]
NUMBER = re.compile(rb"[0-9]+")


# ---------------------------------------------------------------------- whole files


def model_npz(folder: pathlib.Path) -> bytes:
    crf = gm.CRF([2, 3, 2]).add_unary([np.zeros(2), np.array([0, 1, np.inf]), np.ones(2)])
    crf.add(gm.Table([[0, 1], [2, 1]], np.arange(6.0).reshape(2, 3)))
    crf.add(gm.Truncated([[0, 2]], truncation=1, weight="smooth"))
    io.write(crf, folder / "seed.npz", {"smooth": 2.0})
    return (folder / "seed.npz").read_bytes()


def training_problem() -> list[gm.Sample]:
    """Two tiny chains, one with a hidden label: whatever a checkpoint can hold."""
    rng, samples = np.random.default_rng(0), []
    for hidden in (False, True):
        crf = gm.CRF(3, 2)
        crf.add(gm.Unary(rng.normal(size=(3, 2)), "u"))
        crf.add(gm.LearntTable([[0, 1], [1, 2], [0, 2]], "pair"))
        samples.append(gm.Sample(crf, [0, 1, 1], hidden=[hidden, False, False], weight=0.5))
    return samples


def train(folder: pathlib.Path, optimizer: str, max_iter: int, name: str) -> gm.TrainedModel:
    return gm.train(
        training_problem(),
        optimizer=optimizer,
        max_iter=max_iter,
        tol=-1.0,
        completion_every=2,
        checkpoint_every=1,
        checkpoint=folder / name,
        show_progress=False,
    )


def sample_npz(folder: pathlib.Path) -> bytes:
    io.write_sample(training_problem()[1], folder / "seed.npz")
    return (folder / "seed.npz").read_bytes()


def trained_npz(folder: pathlib.Path) -> bytes:
    gm.train(training_problem(), max_iter=3).save(folder / "seed.npz")
    return (folder / "seed.npz").read_bytes()


def checkpoint_npz(folder: pathlib.Path, optimizer: str) -> bytes:
    (folder / "seed.npz").unlink(missing_ok=True)
    train(folder, optimizer, 3, "seed.npz")
    return (folder / "seed.npz").read_bytes()


def seeds(folder: pathlib.Path) -> dict[str, bytes]:
    """File name -> a sound file of that kind."""
    return {
        "m.uai": UAI,
        "m.wcsp": WCSP,
        "m.cfn": CFN,
        "globals.wcsp": GLOBALS,
        "m.bif": BIF,
        "m.xmlbif": XMLBIF,
        "m.wcnf": WCNF,
        "m.qpbo": QPBO,
        "m.uai.xz": lzma.compress(UAI),
        "m.uai.gz": gzip.compress(UAI, mtime=0),
        "m.wcsp.gz": gzip.compress(WCSP, mtime=0),
        "m.cfn.gz": gzip.compress(CFN, mtime=0),
        "m.npz": model_npz(folder),
        "m.evid": EVIDENCE,
        "sample.npz": sample_npz(folder),
        "trained.npz": trained_npz(folder),
        "bcfw.checkpoint": checkpoint_npz(folder, "bcfw"),
        "subgradient.checkpoint": checkpoint_npz(folder, "subgradient"),
        "cutting-plane.checkpoint": checkpoint_npz(folder, "cutting-plane"),
    }


# ---------------------------------------------------------------------- reading


def attempt(path: pathlib.Path, content: bytes) -> bool:
    """Read `content` as a file of that name: is it sound? False for an error of the reader's own
    that names the file.
    """
    path.write_bytes(content)
    try:
        if path.suffix == ".evid":
            return bool(io.read_evidence(path, np.array([2, 3, 2])))
        if path.name == "trained.npz":
            return _usable(gm.load(path))
        if path.name == "sample.npz":
            return bool(np.isfinite(io.read_sample(path).weight))
        if path.suffix == ".checkpoint":
            return _usable(train(path.parent, path.stem, 4, path.name))
        crf = io.read(path)
    except UnknownNameError:
        return False
    except ValueError as error:
        assert (
            isinstance(error, io.FormatError)
            or path.suffix == ".checkpoint"
            or path.name == "trained.npz"
        ), repr(error)
        assert path.name in str(error), f"the file is not named: {error}"
        return False
    weights = {name: np.zeros(shape) for name, shape in crf.layout.shapes.items()}
    assert not np.isnan(crf.energy(np.zeros(crf.n_vars, int), weights))
    return True


def _usable(model: gm.TrainedModel) -> bool:
    """It can be shown and used; weights that do not fit are refused then."""
    assert repr(model) and isinstance(model.gap, float)
    with contextlib.suppress(ValueError):
        model.predict(training_problem()[0].crf, solver="trws", max_iter=2)
    return True


# ---------------------------------------------------------------------- damage


def mutate(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """A few random edits: bytes changed, removed, repeated, cut off, spliced in, numbers blown
    up, stumbling blocks laid.
    """
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(len(data) + 1), rng.randrange(10)
        if kind == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 8)]
        elif kind == 2:
            data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randint(1, 30)]
        elif kind == 3:
            data[at:at] = rng.choice(STUMBLING_BLOCKS)
        elif kind == 4 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 5:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data[at : at + rng.randint(0, 40)] = other[start : start + rng.randint(1, 200)]
        elif kind == 6 and rng.random() < 0.3:
            del data[at:]
        elif kind == 7 and (numbers := list(NUMBER.finditer(data))):
            number = rng.choice(numbers)
            data[number.start() : number.end()] = rng.choice(
                [
                    number.group() * rng.randint(2, 6),
                    b"0",
                    b"-" + number.group(),
                    b"%d" % (int(number.group()[:30]) + rng.choice([-1, 1])),
                    b"1e18",
                ]
            )
        elif kind == 8:
            data[at : at + 1] = data[at : at + 1] * rng.choice([2, 100, 3000])
        else:
            data[at : at + 1] = bytes([rng.choice(b"0123456789 .-[]{}:,\n")])
    return bytes(data)


# ---------------------------------------------------------------------- the run


@contextlib.contextmanager
def limited_time(seconds: float):
    """An AssertionError in whatever takes longer (a crash of compiled code shows by itself)."""

    def stop(*_):
        raise AssertionError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def damaged(rng: random.Random, name: str, content: bytes, others: list[bytes]) -> bytes:
    if name.endswith(".gz") and rng.random() < 0.5:
        return gzip.compress(
            mutate(rng, gzip.decompress(content), others), compresslevel=1, mtime=0
        )
    if name.endswith((".npz", ".checkpoint")) and rng.random() < 0.85:
        return mutate_archive(rng, content)
    return mutate(rng, content, others)


def describe(content: bytes) -> str:
    """The file, if it can be read by people; else the seed and the case repeat it."""
    return f"{len(content)} bytes" + (f": {content!r}" if len(content) < 400 else "")


def fuzz(
    folder: pathlib.Path, seed: int, cases: int, seconds: float, names: Callable[[str], bool] = bool
) -> tuple[int, int]:
    """(cases tried, of which sound); the first case that ends badly is raised."""
    rng, start, sound = random.Random(seed), time.monotonic(), 0
    contents = [(name, content) for name, content in seeds(folder).items() if names(name)]
    others, before = (
        [content for _, content in contents],
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    for case in range(cases):
        if time.monotonic() - start > seconds:
            return case, sound
        name, content = contents[case % len(contents)]
        mutated = damaged(rng, name, content, others)
        try:
            with limited_time(SLOW):
                sound += attempt(folder / name, mutated)
        except Exception as error:
            raise AssertionError(
                f"seed {seed}, case {case}, {name}, {describe(mutated)}"
            ) from error
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        assert grown < MAX_GROWTH, (
            f"seed {seed}, case {case}, {name}: {grown} bytes of memory for {describe(mutated)}"
        )
    return cases, sound
