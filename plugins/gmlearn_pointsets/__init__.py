"""Point sets: a matching distance that ignores order, position and rotation, and clustering with
it.
"""

import gmlearn as gm

__getattr__, __dir__, __all__ = gm.lazy_exports(__name__)
