"""
Learning to cluster
===================

Ten sets of points in 20 dimensions, half of them noise, come with their true partitions. We learn
one weight per dimension, then cluster new sets: the number of clusters is found, not given.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from gmlearn_clustering import ExemplarClustering, ExemplarClusteringLearner, noisy_gaussians
from gmlearn_clustering.plots import plot_clustering
from gmlearn_clustering.scores import pair_f

import gmlearn as gm

QUICK = "--quick" in sys.argv
plt.rcParams.update(gm.plot.style())

sets = noisy_gaussians(
    rho=0.5,
    n_points=60 if QUICK else 100,
    n_dimensions=20,
    n_clusters=6,
    n_sets=5,
    separation=6.0,
    seed=1,
)

# %%
# Learn the weights, and look at them: the noisy dimensions get none.
learner = ExemplarClusteringLearner(n_rounds=30 if QUICK else 100, random_state=0).fit(
    sets.train, sets.train_labels
)
fig, axes = plt.subplots(1, 3, figsize=(13, 3.6))
learner.plot_objective(axes[0])
learner.plot_weights(axes[1])

# %% Cluster new sets with the learnt distance, and with plain squared Euclid given the true number
# of clusters.
learnt = [pair_f(y, learner.cluster(X)) for X, y in zip(sets.test, sets.test_labels)]
euclid = ExemplarClustering(n_clusters=6, random_state=0)
plain = [pair_f(y, euclid.fit_predict(X)) for X, y in zip(sets.test, sets.test_labels)]
print(f"pair-F on new sets: learnt {np.mean(learnt):.3f}, squared Euclid {np.mean(plain):.3f}")

X, y = sets.test[0], sets.test_labels[0]
plot_clustering(X, y, learner.choose(learner.distance(X)).exemplars, ax=axes[2])
plt.show()
