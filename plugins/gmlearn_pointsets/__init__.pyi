from gmlearn_pointsets.digits import digit_point_sets as digit_point_sets
from gmlearn_pointsets.distance import (
    PointSetMatch as PointSetMatch,
    point_set_distance as point_set_distance,
)
from gmlearn_pointsets.estimator import PointSetClustering as PointSetClustering
from gmlearn_pointsets.generate import (
    centre_errors as centre_errors,
    make_graphs as make_graphs,
    make_point_sets as make_point_sets,
)
from gmlearn_pointsets.graph_clustering import GraphClustering as GraphClustering
from gmlearn_pointsets.graphs import (
    Graph as Graph,
    GraphMatch as GraphMatch,
    graph_distance as graph_distance,
)
from gmlearn_pointsets.plots import (
    plot_centres as plot_centres,
    plot_graphs as plot_graphs,
    plot_match as plot_match,
)
from gmlearn_pointsets.rigid import fit_rigid as fit_rigid
from gmlearn_pointsets.sinkhorn import (
    SoftAssignment as SoftAssignment,
    hard_assignment as hard_assignment,
    softassign as softassign,
)
