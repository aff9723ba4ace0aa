"""The structured hinge of Lajugie et al. (ICML 2014), written down once for comparison."""

import numpy as np
from gmlearn_mlca.spectral import spectral_minimum


def true_features(dataset):
    """X' C X (d, d), the features of the truth: <C, X M X'> = <X'CX, M>."""
    B = dataset.data.T @ dataset.partition
    return B @ B.T


def structured_hinge(dataset, M):
    """max_Chat ||Chat - C||^2 + <Chat - C, X M X'>, and a subgradient X'(Chat - C)X (d, d) in M.

    Convex in M, and never below the worst-case risk of M.
    """
    worst = spectral_minimum(dataset, M, augmented=True)
    truth = true_features(dataset)
    return -worst.value - float(np.sum(truth * M)), worst.features - truth


def surrogate_objective(datasets, M, regularisation):
    """lam ||M||^2 + sum_i hinge_i(M) and a subgradient: the convex problem of Lajugie et al."""
    value, slope = regularisation * float(np.sum(M * M)), 2.0 * regularisation * M
    for dataset in datasets:
        hinge, direction = structured_hinge(dataset, M)
        value, slope = value + hinge, slope + direction
    return value, slope
