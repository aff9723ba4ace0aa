"""Structured prediction with ``fit(X, y)``: sequences, grids, graphs, label sets, single labels.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
