"""Point sets: a matching distance that ignores order, position and rotation, and clustering with it."""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(
    __name__,
    {
        "estimator": "PointSetClustering",
        "distance": "PointSetMatch point_set_distance",
        "sinkhorn": "SoftAssignment hard_assignment softassign",
        "rigid": "fit_rigid",
        "generate": "centre_errors make_point_sets",
        "digits": "digit_point_sets",
        "potentials": "Assignment",
        "slaves": "SoftassignSolver",
        "plots": "plot_centres plot_match",
    },
)
