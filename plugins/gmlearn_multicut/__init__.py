"""Multicut (correlation clustering): partitions of signed graphs, their bounds, and learnt edges.

Names are imported on first use, so that registering the plugin loads little.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
