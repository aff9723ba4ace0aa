"""Multi-kernel clustering with group-dependent feature selection.

Names are imported on first use, so that registering the plugin stays light.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(
    __name__,
    {
        "potential": "AssignmentSolver ClusterLoss",
        "estimator": "GroupFeatureClustering",
        "kernels": "KernelBank",
        "assignment": "constrained_assignment greedy_assignment",
        "synthetic": "make_grouped_views",
    },
)
