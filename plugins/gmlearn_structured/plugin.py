"""What gmlearn_structured registers."""

from __future__ import annotations

import gmlearn as gm


@gm.hookimpl
def gmlearn_experiments() -> list[gm.Experiment]:
    return []
