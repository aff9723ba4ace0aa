"""Marginals beside other packages, as ratios taken in one run.

    python tests/benchmarks/marginals.py [--data ../shared/data] [--only networks,uai,letters]
                                         [--names asia,child,alarm] [--seconds 60]

networks: all marginals of Bayesian networks that come with pgmpy, beside its VariableElimination
    (one query for each variable) and BeliefPropagation (calibrated once, then queried).
uai: the instances of the marginal task with references: error of log Z and of the marginals, for
    the exact methods, the convex bound and loopy belief propagation.
letters: forward-backward of all words of the letters beside their Viterbi decoding, both for all
    models at once.
Times are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from pathlib import Path

import numpy as np

import gmlearn as gm


def cpu(function, repeats=1):
    """(answer, CPU seconds of the fastest of some calls)."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        answer = function()
        best = min(best, time.process_time() - start)
    return answer, best


# ---------------------------------------------------------------------- Bayesian networks


def network_model(network):
    """A pgmpy network as a CRF: a table of minus log probabilities for each variable."""
    names = list(network.nodes())
    number = {name: v for v, name in enumerate(names)}
    crf = gm.CRF([network.get_cardinality(name) for name in names])
    tables = {}
    for cpd in network.get_cpds():
        factor = cpd.to_factor()
        scope = [number[v] for v in factor.variables]
        with np.errstate(divide="ignore"):
            costs = -np.log(np.asarray(factor.values, float))
        tables.setdefault(len(scope), []).append((scope, costs))
    for arity, found in tables.items():
        scopes, costs = zip(*found)
        if arity == 1:
            crf.add_unary(list(costs), [scope[0] for scope in scopes])
        else:
            crf.add(gm.Table(list(scopes), list(costs)))
    return crf, names


def networks(names):
    """All marginals of a network, without evidence and with that of its first leaves: one call of
    ours, against one pgmpy query for each variable (of VariableElimination, which prunes the network
    to what the query needs, and of BeliefPropagation after one calibration).
    """
    from pgmpy.inference import BeliefPropagation, VariableElimination
    from pgmpy.utils import get_example_model

    for name in names:
        network = get_example_model(name)
        crf, variables = network_model(network)
        leaves = [v for v in variables if not network.get_children(v)][:3]
        states = {v: network.get_cpds(v).state_names[v][0] for v in leaves}
        for evidence in ({}, states):
            clamped = crf.clamp({variables.index(v): 0 for v in evidence})
            asked = [v for v in variables if v not in evidence]
            gm.marginals(clamped)  # compilation
            found, ours = cpu(lambda crf=clamped: gm.marginals(crf), 5)

            def query(engine, asked=asked, evidence=evidence):
                return [
                    engine.query([v], evidence=evidence, show_progress=False).values for v in asked
                ]

            def propagate(network=network, query=query):
                engine = BeliefPropagation(network)
                engine.calibrate()
                return query(engine)

            peer, theirs = cpu(lambda query=query, n=network: query(VariableElimination(n)), 3)
            rows = [found.node[variables.index(v), : len(p)] for v, p in zip(asked, peer)]
            error = max(np.abs(row - p).max() for row, p in zip(rows, peer))
            line = (
                f"{name:10} {len(evidence)} observed {crf.n_vars:4} variables  ours "
                f"{1e3 * ours:.2f} ms  VariableElimination {1e3 * theirs:.1f} ms "
                f"({theirs / ours:.0f}x)  largest difference {error:.0e}"
            )
            if crf.n_vars <= 25:
                try:
                    _, calibrated = cpu(propagate)
                    line += f"  BeliefPropagation {1e3 * calibrated:.0f} ms"
                    line += f" ({calibrated / ours:.0f}x)"
                except ValueError as error:  # of networks in several parts
                    line += f"  BeliefPropagation: {error}"
            print(line, flush=True)


# ---------------------------------------------------------------------- UAI instances


def reference(path):
    with gzip.open(f"{path}.MAR.gz", "rt") as stream:
        numbers = stream.read().split()
    at, marginals = 2, []
    for _ in range(int(numbers[1])):
        n = int(numbers[at])
        marginals.append(np.array(numbers[at + 1 : at + 1 + n], float))
        at += 1 + n
    return marginals


def uai(folder, seconds):
    for row in csv.DictReader((folder / "index.csv").read_text().splitlines()):
        path = folder / row["instance"]
        crf = gm.read(f"{path}.gz")
        evidence = [int(x) for x in Path(f"{path}.evid").read_text().split()]
        if evidence and evidence[0]:
            crf = crf.clamp(dict(zip(evidence[1::2], evidence[2::2])))
        known = reference(path)
        for method in ("auto", "loopy-bp"):
            m, spent = cpu(
                lambda crf=crf, method=method: gm.marginals(crf, method=method, time_limit=seconds)
            )
            error = np.mean([np.abs(m.node[v, : len(p)] - p).max() for v, p in enumerate(known)])
            print(
                f"{row['instance']:32} {m.method:12} {m.status.value:9} log Z in "
                f"[{m.lower:.6f}, {m.upper:.6f}]  error {error:.2e}  {spent:.2f} s",
                flush=True,
            )
            if method == "auto" and m.status == "exact":
                break


# ---------------------------------------------------------------------- letters


def letter_chains(folder, n_words):
    data = np.load(folder / "letters.npz")
    pixels = np.unpackbits(data["pixels"], axis=1).astype(float)
    ends = np.cumsum(data["lengths"])[:n_words]
    crfs = []
    for end, length in zip(ends, data["lengths"]):
        crf = gm.CRF(int(length), 26)
        crf.add(gm.Unary(pixels[end - length : end], "unary"))
        edges = [[i, i + 1] for i in range(length - 1)]
        crf.add(gm.LearntTable(edges, "pair", symmetric=False))
        crfs.append(crf)
    return crfs


def letters(folder, n_words=6000):
    rng = np.random.default_rng(0)
    crfs = letter_chains(folder, n_words)
    w = {"unary": 0.1 * rng.normal(size=(26, 128)), "pair": rng.normal(size=(26, 26))}
    model = gm.TrainedModel(w, 0.0)
    model.predict_many(crfs[:10])
    gm.marginals(crfs[:10], w)
    _, viterbi = cpu(lambda: model.predict_many(crfs), 3)
    _, soft = cpu(lambda: gm.marginals(crfs, w), 3)
    print(
        f"letters: {len(crfs)} words  Viterbi {viterbi:.3f} s  marginals {soft:.3f} s "
        f"({soft / viterbi:.2f}x)"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="networks,uai,letters")
    parser.add_argument(
        "--names",
        default="cancer,asia,sachs,child,insurance,alarm,water,hailfinder,hepar2,win95pts,andes",
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if "networks" in parts:
        networks(arguments.names.split(","))
    if "uai" in parts:
        uai(arguments.data / "marginals", arguments.seconds)
    if "letters" in parts:
        letters(arguments.data / "structured")


if __name__ == "__main__":
    main()
