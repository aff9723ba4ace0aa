"""gmlearn: define, solve and learn high-order graphical models.

Everything public is a name of this package, listed in ``__init__.pyi``; names are imported on
first use, so ``import gmlearn`` stays as light as numpy.
"""

from gmlearn._utils.lazy import lazy_exports
from gmlearn._utils.private_cache import ensure_kernel_folder

ensure_kernel_folder(__path__[0])
__getattr__, __dir__, __all__ = lazy_exports(__name__)
