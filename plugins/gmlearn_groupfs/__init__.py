"""Multi-kernel clustering with group-dependent feature selection.

Names are imported on first use, so that registering the plugin stays light.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
