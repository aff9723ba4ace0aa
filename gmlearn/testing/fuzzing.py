"""Mutated files of every potential: read, solved and trained in children that may die.

A case is a model, a sample, a trained model or a checkpoint in which something was changed. It ends
well if the reader refuses it with an error that names the file, or if what it gives is sound: the
bound is below the minimum by enumeration, the energy is that of the labels and not below it. A
signal, a hang, too much memory, another exception do not.

Cases run in forked children, some hundred in each, under a limit of memory and, for each case, of
time; a child that dies is followed by another, which goes on behind the case that killed it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmlearn.io import FormatError, read, read_sample, read_weights, write, write_sample
from gmlearn.learn import L2, Sample, TrainedModel, load, train
from gmlearn.model import CRF
from gmlearn.registry import UnknownNameError
from gmlearn.solvers import SolverRefusal, solve
from gmlearn.testing.brute_force import energy_table
from gmlearn.testing.kit import NotApplicable, examples_of, expect, name_of
from gmlearn.testing.mutations import mutate_archive
from gmlearn.testing.potential_checks import model_of, registry_class

#: seconds of a case, bytes by which a child may grow, cases of a child
SECONDS, MEMORY, CHUNK = 20, 2**30, 200
#: joint labellings up to which the answer is compared with enumeration
ENUMERATED = 5000
#: rounding of energies, relative to the largest cost
ROUNDING = 1e-6


@dataclass(frozen=True)
class Seed:
    """A sound file: its kind ("model", "sample", "trained", "checkpoint"), its bytes, and what it
    was made of.
    """

    kind: str
    content: bytes
    about: str
    samples: list[Sample] = field(default_factory=list)
    optimizer: str = "bcfw"

    @property
    def name(self) -> str:
        return f"{self.kind}.npz"


@dataclass
class FuzzReport:
    """cases : how many were tried.   accepted : of which the reader took.   failures : what went
    wrong, with the seed and the number that repeat it.
    """

    cases: int = 0
    accepted: int = 0
    failures: list[str] = field(default_factory=list)


def fuzz(things: Iterable[Any], cases: int, seed: int = 0, most_failures: int = 10) -> FuzzReport:
    """Mutate files of blocks of these potentials (classes), `cases` in all."""
    if not hasattr(os, "fork"):
        raise NotApplicable("cases run in forked children, which this system has not")
    report = FuzzReport()
    # memory where there is one: opening files would take most of the time
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seeds = [s for thing in things for s in seeds_of(thing, folder)]
        if not seeds:
            raise NotApplicable("none of its blocks goes into a file")
        for s in seeds:  # sound as they are, and compiled before any child is made
            expect(_attempt(s, s.content, folder), f"the {s.kind} of {s.about} is not read again")
        while report.cases < cases and len(report.failures) < most_failures:
            todo = range(report.cases, min(report.cases + CHUNK, cases))
            _run_child(seeds, todo, seed, folder, report)
    return report


def seeds_of(thing: Any, folder: str) -> list[Seed]:
    """Files of the examples of a potential; those of training where it learns."""
    seeds: list[Seed] = []
    for case in examples_of(thing):
        block: Any = case[0]
        w: Any = case[1]
        if registry_class(block) is not type(block):
            continue
        rng = np.random.default_rng(len(seeds))
        crf = _with_costs(block, rng)
        about = f"{name_of(thing)} ({block!r})"
        try:
            seeds.append(Seed("model", _written(write, crf, folder, w), about))
        except ValueError:  # it goes into no file
            continue
        labels = _feasible(crf, w)
        if labels is None or not w:
            continue
        samples = [Sample(crf, labels)]
        kept = [] if seeds[1:] else [Seed("sample", _sample(samples[0], folder), about)]
        seeds += kept + _training_seeds(samples, about, folder)
    return seeds


def _with_costs(block: Any, rng: np.random.Generator) -> CRF:
    crf = model_of(block)
    crf.unary = rng.normal(size=crf.n_coords)
    return crf


def _training_seeds(samples: list[Sample], about: str, folder: str) -> list[Seed]:
    """A trained model, and checkpoints of optimisers with different memories."""
    made = []
    for optimizer in ("bcfw", "subgradient"):
        path = os.path.join(folder, "seed.npz")
        if os.path.exists(path):
            os.unlink(path)
        try:
            model = _train(samples, optimizer, path, 2)
        except ValueError:  # an optimiser, or training, may refuse the problem
            continue
        with open(path, "rb") as stream:
            made.append(Seed("checkpoint", stream.read(), about, samples, optimizer))
        if len(made) == 1:
            content = _written(lambda m, p, _: m.save(p), model, folder, None)
            made.append(Seed("trained", content, about, samples))
    return made


def _train(samples: list[Sample], optimizer: str, path: str, max_iter: int) -> TrainedModel:
    return train(
        samples,
        optimizer=optimizer,
        regularizer=L2(1.0),
        checkpoint=path,
        checkpoint_every=1,
        max_iter=max_iter,
        tol=-1.0,
        show_progress=False,
    )


def _feasible(crf: CRF, w: Any) -> np.ndarray | None:
    try:
        table = energy_table(crf, crf.check_weights(w))
    except NotApplicable:
        return None
    best = np.unravel_index(int(table.argmin()), table.shape)
    return np.array(best, np.int64) if np.isfinite(table[best]) else None


def _written(writer: Any, thing: Any, folder: str, w: Any) -> bytes:
    path = os.path.join(folder, "seed.npz")
    writer(thing, path, w)
    with open(path, "rb") as stream:
        return stream.read()


def _sample(sample: Sample, folder: str) -> bytes:
    return _written(lambda s, p, _: write_sample(s, p), sample, folder, None)


# ---------------------------------------------------------------------- one case


def _attempt(seed: Seed, content: bytes, folder: str) -> bool:
    """Read and use `content`: False if it is refused with an error that names the file."""
    path = os.path.join(folder, seed.name)
    with open(path, "wb") as stream:
        stream.write(content)
    try:
        if seed.kind == "model":
            found: Any = (read(path), read_weights(path))
        elif seed.kind == "sample":
            found = read_sample(path)
        elif seed.kind == "trained":
            found = load(path)
        else:
            found = _train(seed.samples, seed.optimizer, path, 3)
    except UnknownNameError:
        return False
    except (FormatError, ValueError) as error:
        expect(seed.name in str(error), f"the file is not named: {error!r}")
        return False
    if seed.kind == "model":
        _use_model(*found)
    elif seed.kind == "sample":
        _use_sample(found)
    else:
        _use_trained(found, seed.samples[0].crf)
    return True


def _use_model(crf: CRF, weights: Any) -> None:
    """Its bound and energy agree with enumeration."""
    layout = crf.layout
    rng = np.random.default_rng(0)
    w = {n: rng.normal(size=s) for n, s in layout.shapes.items()} if weights is None else weights
    try:
        result = solve(crf, w, max_iter=20)
    except (SolverRefusal, MemoryError):
        return
    small = np.prod(crf.n_states, dtype=float) <= ENUMERATED
    table = energy_table(crf, crf.check_weights(w)) if small else np.zeros(0)
    costs = [np.abs(a[np.isfinite(a)]).max(initial=1.0) for a in (table, crf.unary)]
    slack = ROUNDING * float(max(costs))
    expect(not np.isnan([result.energy, result.bound]).any(), f"{result!r} has NaN")
    expect(result.bound <= result.energy + slack, f"bound {result.bound} > {result.energy}")
    if result.labels is not None and np.isfinite(result.energy):
        there = crf.energy(result.labels, w)
        expect(abs(there - result.energy) <= slack, f"energy {result.energy}, really {there}")
    if small:
        least = float(table.min(initial=np.inf))
        expect(result.bound <= least + slack, f"bound {result.bound}, but the minimum is {least}")
        expect(result.energy >= least - slack, f"energy {result.energy} below {least}")


def _use_sample(sample: Sample) -> None:
    try:
        model = train([sample], max_iter=2, show_progress=False)
    except (ValueError, MemoryError) as error:
        expect(str(error), "an error without a message")
        return
    expect(not np.isnan(model.objective), "the objective is NaN")


def _use_trained(model: TrainedModel, crf: CRF) -> None:
    expect(bool(repr(model)) and isinstance(model.gap, float), "it cannot be shown")
    try:
        result = model.predict(crf, max_iter=5)
    except ValueError as error:  # weights that do not fit
        expect(str(error), "an error without a message")
        return
    expect(result.bound <= result.energy + ROUNDING * max(1.0, abs(result.energy)), repr(result))


# ---------------------------------------------------------------------- children


def _mutated(seeds: Sequence[Seed], seed: int, case: int) -> tuple[Seed, bytes]:
    rng = random.Random(f"{seed} {case}")
    chosen = seeds[case % len(seeds)]
    content = mutate_archive(rng, chosen.content)
    if rng.random() < 0.1:  # bytes of the archive itself
        data = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        content = bytes(data)
    return chosen, content


def _run_child(
    seeds: Sequence[Seed], todo: range, seed: int, folder: str, report: FuzzReport
) -> None:
    """Try cases in a child until it is done or dead; add what it says to the report."""
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(inside)
        try:
            _be_child(seeds, todo, seed, folder, outside)
        finally:
            os._exit(0)
    os.close(outside)
    with os.fdopen(inside) as stream:  # until the child closes its end, or dies
        lines = stream.read().splitlines()
    status = os.waitpid(child, 0)[1]
    for line in lines:
        answer = json.loads(line)
        report.cases += 1
        report.accepted += answer["accepted"]
        if answer["error"]:
            report.failures.append(_told(seeds, seed, report.cases - 1, answer["error"]))
    if len(lines) < len(todo):
        report.cases += 1
        died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        what = {
            signal.SIGALRM: f"it takes more than {SECONDS} s",
            0: "the child ended",
        }.get(died, f"signal {died}")
        report.failures.append(_told(seeds, seed, report.cases - 1, what))


def _be_child(seeds: Sequence[Seed], todo: range, seed: int, folder: str, pipe: int) -> None:
    """One line for each case; the alarm ends the process, also within compiled code."""
    import resource

    with open("/dev/null", "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    faulthandler.disable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as stream:
            used = int(stream.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for case in todo:
        signal.alarm(SECONDS)
        answer = {"accepted": False, "error": ""}
        try:
            answer["accepted"] = _attempt(*_mutated(seeds, seed, case), folder)
        except Exception as error:  # whatever it is, it is reported
            answer["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        os.write(pipe, (json.dumps(answer) + "\n").encode())


def _told(seeds: Sequence[Seed], seed: int, case: int, what: str) -> str:
    chosen = seeds[case % len(seeds)]
    return f"{chosen.kind} of {chosen.about}, seed {seed}, case {case}: {what}"
