"""What the estimators of this plugin share: images are not tables, and any seed will do."""

from __future__ import annotations

import numbers
from typing import Any

from sklearn.base import BaseEstimator

import gmlearn as gm


class ImageEstimator(BaseEstimator):
    """An estimator whose samples are images, in lists or stacks, not the rows of a table."""

    random_state: Any

    def _seed(self) -> int:
        """The seed itself if one is given, else a draw from the `RandomState` (None: a new one)."""
        if isinstance(self.random_state, numbers.Integral):
            high = 2**63 - 1
            gm.check_number("random_state", self.random_state, low=0, high=high, integer=True)
            return int(self.random_state)
        return int(gm.check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags
