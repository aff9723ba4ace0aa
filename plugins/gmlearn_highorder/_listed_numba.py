"""Compiled parts of cliques with listed costs: costs from weights, and features of the chosen
options, without (M, J) temporaries.

`inputs` is (M, J, F), or (M, 1, F) where all options share them.
"""

from numba import njit


@njit(cache=True, nogil=True)
def costs_of_options(inputs, weights, out):
    """out[m, j] = weights[j] . inputs[m, j]."""
    shared = inputs.shape[1] == 1
    for m in range(len(out)):
        for j in range(out.shape[1]):
            row = 0 if shared else j
            total = 0.0
            for f in range(weights.shape[1]):
                total += weights[j, f] * inputs[m, row, f]
            out[m, j] = total


@njit(cache=True, nogil=True)
def sum_chosen(inputs, option, share, out):
    """out[option[m]] += share[m] * inputs[m, option[m]], summed over the cliques."""
    shared = inputs.shape[1] == 1
    for m in range(len(option)):
        s = share[m]
        if s != 0.0:
            j = option[m]
            row = 0 if shared else j
            for f in range(out.shape[1]):
                out[j, f] += s * inputs[m, row, f]


@njit(cache=True, nogil=True)
def write_chosen(inputs, option, share, out):
    """out[m, option[m]] = share[m] * inputs[m, option[m]], clique by clique, all other entries
    0.
    """
    shared = inputs.shape[1] == 1
    for m in range(len(option)):
        j = option[m]
        row = 0 if shared else j
        for i in range(out.shape[1]):
            for f in range(out.shape[2]):
                out[m, i, f] = share[m] * inputs[m, row, f] if i == j else 0.0


@njit(cache=True, nogil=True)
def constant_labels(x, indptr, option, share):
    """The label of the first member of each clique, and 1 where all others have it too, else 0."""
    for m in range(len(option)):
        first, same = x[indptr[m]], True
        for i in range(indptr[m] + 1, indptr[m + 1]):
            same &= x[i] == first
        option[m] = first
        share[m] = 1.0 if same else 0.0
