"""Random blocks of every kind, small enough to enumerate, and the enumeration that is their
specification.
"""

import gmlearn_highorder as h
import numpy as np


def some_cliques(rng, n_vars, m):
    """m cliques of 1 to 5 different variables."""
    return [rng.choice(n_vars, int(rng.integers(1, 6)), replace=False) for _ in range(m)]


def numbers(rng, shape, coarse):
    """Costs; `coarse` ones are small whole numbers, so that ties and zeros abound."""
    return rng.integers(-2, 3, size=shape).astype(float) if coarse else rng.normal(size=shape)


def pn_potts(rng, states, coarse):
    m, cliques = 4, some_cliques(rng, len(states), 4)
    size = int(states[np.concatenate(cliques)].max())
    if rng.random() < 0.5:
        beta = numbers(rng, (m, size), coarse)
        if rng.random() < 0.3:
            beta[0, 0] = np.inf
        return h.PnPotts(cliques, beta, numbers(rng, m, coarse)), {}
    return (
        h.PnPotts(
            cliques,
            beta_max=numbers(rng, m, coarse),
            features=numbers(rng, (m, size, 2), coarse),
            weight="a",
            weight_max="b",
        ),
        {"a": numbers(rng, (size, 2), coarse), "b": numbers(rng, (), coarse)},
    )


def robust_pn(rng, states, coarse):
    m, cliques = 4, some_cliques(rng, len(states), 4)
    size = int(states[np.concatenate(cliques)].max())
    half = np.maximum([len(c) // 2 for c in cliques], 1)
    truncation = half - rng.random(m) * rng.integers(0, half)
    if rng.random() < 0.5:
        return h.RobustPn(
            cliques, truncation, numbers(rng, (m, size), coarse), numbers(rng, m, coarse)
        ), {}
    return (
        h.RobustPn(
            cliques,
            truncation,
            beta_max=numbers(rng, m, coarse),
            features=numbers(rng, (m, 2), coarse),
            weight="a",
            weight_max="b",
        ),
        {"a": numbers(rng, (size, 2), coarse), "b": numbers(rng, (), coarse)},
    )


def pattern(rng, states, coarse):
    m, k, fewest = 4, int(rng.integers(1, 5)), int(states.min())
    variables = np.stack([rng.choice(len(states), k, replace=False) for _ in range(m)])
    patterns = np.unique(rng.integers(0, fewest, size=(int(rng.integers(1, 9)), k)), axis=0)
    patterns = rng.permutation(patterns)
    p = len(patterns)
    if rng.random() < 0.5:
        psi = numbers(rng, (m, p), coarse)
        if rng.random() < 0.3:
            psi[0, 0] = np.inf
        return h.Pattern(variables, patterns, psi, numbers(rng, m, coarse)), {}
    return (
        h.Pattern(
            variables,
            patterns,
            psi_max=numbers(rng, m, coarse),
            features=numbers(rng, (m, p, 2), coarse),
            weight="a",
            weight_max="b",
        ),
        {"a": numbers(rng, (p, 2), coarse), "b": numbers(rng, (), coarse)},
    )


def cardinality(rng, states, coarse):
    m = 4
    cliques = some_cliques(rng, len(states), m)
    label = rng.integers(0, [states[c].max() for c in cliques])
    if rng.random() < 0.5:
        costs = [numbers(rng, len(c) + 1, coarse) for c in cliques]
        costs[0][rng.integers(len(costs[0]))] = np.inf
        return h.Cardinality(cliques, costs, label=label), {}
    return (
        h.Cardinality(cliques, weight="f", label=label),
        {"f": numbers(rng, max(map(len, cliques)) + 1, coarse)},
    )


def exactly_one(rng, states, coarse):
    return h.ExactlyOne(
        some_cliques(rng, len(states), 4), label=int(rng.integers(states.min()))
    ), {}


def exactly_k(rng, states, coarse):
    cliques = some_cliques(rng, len(states), 4)
    return h.Exactly(cliques, [rng.integers(0, len(c) + 1) for c in cliques]), {}


def at_most_k(rng, states, coarse):
    return h.AtMost(some_cliques(rng, len(states), 4), rng.integers(0, 4, size=4)), {}


def implication(rng, states, coarse):
    pairs = np.stack([rng.choice(len(states), 2, replace=False) for _ in range(4)])
    labels = {
        "premise": rng.integers(0, states[pairs[:, 0]]),
        "conclusion": rng.integers(0, states[pairs[:, 1]]),
    }
    if rng.random() < 0.5:
        return h.Implication(pairs, **labels), {}
    return h.Implication(pairs, **labels, cost=numbers(rng, 4, coarse), weight="i"), {
        "i": numbers(rng, (), coarse)
    }


def label_cost(rng, states, coarse):
    m, cliques = 4, some_cliques(rng, len(states), 4)
    size = int(states[np.concatenate(cliques)].max())
    if rng.random() < 0.5:
        costs = np.abs(numbers(rng, (m, size), coarse))
        costs[0, 0] = np.inf if rng.random() < 0.5 else -1.0
        return h.LabelCost(cliques, costs), {}
    return h.LabelCost(cliques, numbers(rng, (m, size), coarse), weight="l"), {
        "l": numbers(rng, size, coarse)
    }


def value_sum(rng, states, coarse):
    cliques = some_cliques(rng, len(states), 4)
    members = sum(map(len, cliques))
    values = rng.integers(0, 3, (members, states.max()))
    block = h.ValueSum(cliques, values, weight="f")
    if rng.random() < 0.5:
        return block, {"f": numbers(rng, block.n_entries, coarse)}
    costs = [numbers(rng, total + 1, coarse) for total in block.most]
    costs[0][rng.integers(len(costs[0]))] = np.inf
    return h.ValueSum(cliques, values, costs), {}


#: kind -> (builder, slave solver)
KINDS = {
    "pn_potts": (pn_potts, h.PnPottsSlave()),
    "robust_pn": (robust_pn, h.RobustPnSlave()),
    "pattern": (pattern, h.PatternSlave()),
    "cardinality": (cardinality, h.CardinalitySlave()),
    "exactly_one": (exactly_one, h.CardinalitySlave()),
    "exactly_k": (exactly_k, h.CardinalitySlave()),
    "at_most_k": (at_most_k, h.CardinalitySlave()),
    "implication": (implication, h.ImplicationSlave()),
    "label_cost": (label_cost, h.LabelCostSlave()),
    "value_sum": (value_sum, h.ValueSumSlave()),
}


def random_case(kind, rng):
    """A bound block, weights, flat dual costs (D,) with some ties, zeros and infs, and the
    solver of the kind.
    """
    coarse = rng.random() < 0.5
    states = (
        np.full(7, int(rng.integers(2, 4))) if rng.random() < 0.5 else rng.integers(2, 4, size=7)
    )
    build, solver = KINDS[kind]
    block, w = build(rng, states, coarse)
    block = block.bind(states)
    theta = numbers(rng, int(block.member_states.sum()), coarse)
    if rng.random() < 0.2:
        theta[:] = 0.0
    if rng.random() < 0.5:
        theta[rng.random(len(theta)) < 0.25] = np.inf
    return block, w, theta, solver


def clique_totals(block, w, theta):
    """For every clique the dense array of theta + h over its joint states: the specification."""
    ptr = np.concatenate([[0], np.cumsum(block.member_states)])
    for m in range(len(block)):
        one = block.take(np.array([m]))
        table = one.table(w)[0]
        table = table[tuple(slice(int(s)) for s in one.member_states)]
        for place, member in enumerate(range(block.indptr[m], block.indptr[m + 1])):
            shape = [1] * table.ndim
            shape[place] = -1
            table = table + theta[ptr[member] : ptr[member + 1]].reshape(shape)
        yield table


def ensure_registered():
    """The plugin's hooks, also where the package was not installed with its entry point."""
    from gmlearn_highorder import plugin

    import gmlearn as gm

    if not any(entry.name == "pn_potts" for entry in gm.plugins()):
        gm.register(plugin, "highorder")
