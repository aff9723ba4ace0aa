"""MLCA: Mahalanobis metrics for supervised clustering, in closed form and by a spectral slave.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
