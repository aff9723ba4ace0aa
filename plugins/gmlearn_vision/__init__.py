"""Vision models: grids, denoising with a learnt V(|a - b|), stereo with a learnt gradient-modulated
Potts term.

Names are imported on first use, so that registering the plugin does not load scikit-learn.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
