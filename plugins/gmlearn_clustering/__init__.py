"""Learning to cluster with exemplars: the energy, its optimisers, and the learning of its distances."""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(
    __name__,
    {
        "estimator": "ExemplarClustering",
        "solver": "ExemplarSolution exemplars_of_number minimise_exemplars",
        "energy": "assign exemplar_energy",
        "sparse": "draw_landmarks neighbour_costs",
        "learner": "ExemplarClusteringLearner",
        "distances": "DistanceBank",
        "crossfit": "cross_fit range_folds",
        "fitted_distances": "LDAPosterior LDAProjection MLCAProjection",
        "synthetic": "noisy_gaussians",
        "losses": "ClusteringLoss clustering_loss",
        "completion": "medoid_completion",
        "potentials": "ExemplarBlock ExemplarCountBlock exemplar_model",
        "slaves": "ClusterSlaves ClusteringSlaves ExemplarDecomposition PointSlaves training_sample training_slaves",
    },
)
