"""MLCA: Mahalanobis metrics for supervised clustering, in closed form and by a spectral slave.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(
    __name__,
    {
        "estimator": "MLCA",
        "baselines": "ITML KISSME XQDA",
        "surrogate": "SpectralMetric",
        "statistics": "PartitionStatistics",
        "metrics": "clustering_accuracy contingency_table delta_loss normalised_mutual_information rand_loss",
        "potentials": "KMeansEnergy PartitionDistance",
        "slaves": "SpectralDecomposition",
    },
)
