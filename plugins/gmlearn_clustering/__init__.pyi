from gmlearn_clustering.cccp import ConcaveConvex as ConcaveConvex
from gmlearn_clustering.completion import medoid_completion as medoid_completion
from gmlearn_clustering.crossfit import (
    cross_fit as cross_fit,
    range_folds as range_folds,
)
from gmlearn_clustering.distances import DistanceBank as DistanceBank
from gmlearn_clustering.graph import (
    graph_distance as graph_distance,
    graph_embedding as graph_embedding,
)
from gmlearn_clustering.weighting import (
    alignment_weights as alignment_weights,
    pair_weights as pair_weights,
    triplet_weights as triplet_weights,
)
from gmlearn_clustering.energy import (
    assign as assign,
    exemplar_energy as exemplar_energy,
)
from gmlearn_clustering.estimator import ExemplarClustering as ExemplarClustering
from gmlearn_clustering.fitted_distances import (
    LDAPosterior as LDAPosterior,
    LDAProjection as LDAProjection,
    MLCAProjection as MLCAProjection,
)
from gmlearn_clustering.learner import ExemplarClusteringLearner as ExemplarClusteringLearner
from gmlearn_clustering.losses import (
    ClusteringLoss as ClusteringLoss,
    clustering_loss as clustering_loss,
)
from gmlearn_clustering.potentials import (
    ExemplarBlock as ExemplarBlock,
    ExemplarCountBlock as ExemplarCountBlock,
    exemplar_model as exemplar_model,
)
from gmlearn_clustering.slaves import (
    ClusteringSlaves as ClusteringSlaves,
    ClusterSlaves as ClusterSlaves,
    ExemplarDecomposition as ExemplarDecomposition,
    PointSlaves as PointSlaves,
    training_sample as training_sample,
    training_slaves as training_slaves,
)
from gmlearn_clustering.number import exemplars_of_number as exemplars_of_number
from gmlearn_clustering.solver import (
    ExemplarSolver as ExemplarSolver,
    minimise_exemplars as minimise_exemplars,
)
from gmlearn_clustering.sparse import (
    draw_landmarks as draw_landmarks,
    neighbour_costs as neighbour_costs,
)
from gmlearn_clustering.synthetic import (
    distractor_gaussians as distractor_gaussians,
    noisy_gaussians as noisy_gaussians,
)
