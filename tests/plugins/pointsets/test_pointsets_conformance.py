"""Everything that gmlearn_pointsets registers keeps its contract: the conformance kit's checks."""

import gmlearn as gm


@gm.testing.parametrize_with_checks("pointsets")
def test_contracts(thing, check):
    check(thing)
