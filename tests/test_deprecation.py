"""Names that go: they work, and say what to write instead."""

import re

import numpy as np
import pytest

import gmlearn as gm
from gmlearn._utils.deprecation import deprecated


def test_a_deprecated_function_works_and_says_what_to_write():
    @deprecated("new(x)", removed_in="0.9")
    def old(x):
        """Documented."""
        return 2 * x

    with pytest.warns(FutureWarning, match=re.escape("old goes in gmlearn 0.9; write new(x)")) as w:
        assert old(3) == 6
    assert w[0].filename == __file__
    assert old.__doc__ == "Documented."


def test_expected_features_is_a_method_now():
    block = gm.Potts([[0, 1]], weight="s").bind(np.array([2, 2]))
    joint = np.full((1, 2, 2), 0.25)
    with pytest.warns(FutureWarning, match="block.expected_features"):
        assert gm.expected_features(block, joint) == block.expected_features(joint)
