"""Small random models, and their probabilities by enumeration."""

import gmlearn_highorder as high
import numpy as np

import gmlearn as gm
from gmlearn.testing.brute_force import energy_table

KINDS = ("forest", "loopy", "hard", "triples", "mixed", "unequal", "learnt", *(
    "pn_potts",
    "robust_pn",
    "pattern",
    "cardinality",
    "exactly_one",
    "at_most",
    "implication",
    "label_cost",
    "exactly",
    "value_sum",
))  # fmt: skip


def random_model(rng, kind):
    """(model, weights) with at most a few thousand labellings."""
    n = int(rng.integers(3, 7))
    states = rng.integers(1, 4, n) if kind in ("unequal", "hard") else np.full(n, 2)
    if kind in ("loopy", "learnt", "pn_potts", "robust_pn"):
        states = np.full(n, int(rng.integers(2, 4)))
    crf = gm.CRF(states)
    crf.add_unary([rng.normal(size=s) for s in states])
    edges = np.array([(a, b) for a in range(n) for b in range(a) if rng.random() < 0.5])
    if kind == "forest":
        edges = np.array([(int(rng.integers(v)), v) for v in range(1, n)])
    edges = edges if len(edges) else np.array([(0, 1)])
    scale = rng.choice([0.5, 2.0])
    tables = [scale * rng.normal(size=(states[a], states[b])) for a, b in edges]
    if kind == "hard":
        for t in tables:
            t[rng.random(t.shape) < 0.3] = np.inf
    w = {}
    if kind == "learnt":
        block = crf.add(gm.LearntTable(edges, "pair"))
        w = {name: rng.normal(size=s) for name, s in block.segments().items()}
        return crf, w
    crf.add(gm.Table(edges, tables))
    if kind in ("triples", "mixed", "unequal"):
        triple = rng.permutation(n)[:3]
        crf.add(gm.Table([triple], [rng.normal(size=tuple(states[triple]))]))
    if kind == "mixed":
        crf.add(gm.Potts(edges[:1], 0.7))
    block = high_order(rng, kind, n, int(states.max()))
    if block is not None:
        crf.add(block)
    return crf, w


def high_order(rng, kind, n, n_labels):
    """A block of one of the shipped high-order potentials over 3 or more variables."""
    size = int(rng.integers(3, n + 1))
    scope = rng.permutation(n)[:size]
    if kind == "pn_potts":
        return high.PnPotts([scope], rng.normal(size=(1, n_labels)), 1.5)
    if kind == "robust_pn":
        return high.RobustPn([scope], 1.0, rng.random((1, n_labels)), 2.0)
    if kind == "pattern":
        patterns = np.array([np.zeros(size, int), np.arange(size) % 2])
        return high.Pattern([scope], patterns, rng.normal(size=(1, 2)), 0.5)
    if kind == "cardinality":
        return high.Cardinality([scope], rng.normal(size=(1, size + 1)))
    if kind == "exactly_one":
        return high.ExactlyOne([scope])
    if kind == "at_most":
        return high.AtMost([scope], 2)
    if kind == "implication":
        return high.Implication([scope[:2]], cost=rng.choice([1.0, np.inf]))
    if kind == "exactly":
        return high.Exactly([scope], 2)
    if kind == "value_sum":
        return high.ValueSum([scope], [0, 2], rng.normal(size=2 * size + 1))
    if kind == "label_cost":
        return high.LabelCost([scope], rng.random(n_labels))
    return None


def enumerated(crf, w, temperature):
    """(log Z, node (V, L), clique marginals of each block) by writing out all labellings."""
    energy = energy_table(crf, crf.check_weights(w)) / temperature
    low = energy.min()
    node = np.zeros((crf.n_vars, int(crf.n_states.max())))
    if low == np.inf:
        return -np.inf, node, []
    p = np.exp(low - energy)
    log_z = float(np.log(p.sum()) - low)
    p = p / p.sum()

    def marginal(scope):
        order = np.argsort(scope)
        others = tuple(v for v in range(crf.n_vars) if v not in scope)
        return p.sum(axis=others).transpose(np.argsort(order))

    for v in range(crf.n_vars):
        node[v, : crf.n_states[v]] = marginal([v])
    scopes = [np.split(b.members, b.indptr[1:-1]) for b in crf.blocks]
    return log_z, node, [[marginal(s.tolist()) for s in own] for own in scopes]
