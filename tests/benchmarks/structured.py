"""Many small samples: training and prediction of the OCR letters beside python-crfsuite.

    python tests/benchmarks/structured.py --data DIR [--all]

DIR holds ``structured/letters.npz``; --all adds likelihood training on the larger part (6173
words). The unit is python-crfsuite's likelihood training on the same words, in CPU seconds of one
thread. PyStruct, measured once with the same unit, took 2.3 units for the hinge.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

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


def hinge(samples: list[gm.Sample], unit: float, level: float) -> gm.TrainedModel:
    """Train until F is within `level` of the optimum, relatively."""

    def near(passes: int, w: dict, history: gm.TrainingHistory) -> bool:
        known = history.evaluated()
        return len(known) > 0 and np.nanmin(known) <= HINGE * (1.0 + level)

    start = time.process_time()
    model = gm.train(
        samples, regularizer=gm.L2(10.0), max_iter=400, callbacks=[near], show_progress=False
    )
    seconds = time.process_time() - start
    print(
        f"hinge, {len(samples)} words: to {100 * level:.2g} % in {seconds / unit:.2f} units, "
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    words, letters, small = read_words(Path(args.data, "structured", "letters.npz"))
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
    predict(model, parts["large"][0][:2000], parts["large"][1][:2000])
    if args.all:
        likelihood(samples["large"], crfsuite_seconds(*parts["large"]))


if __name__ == "__main__":
    main()
