"""Pictures: one colour-blind-safe style for everything."""

from gmlearn.plot.style import PALETTE, axes, style

__all__ = ["PALETTE", "axes", "style"]
