"""Learning to cluster with exemplars: the energy, its optimisers, and the learning of its
distances.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
