"""Everything that gmlearn_highorder registers keeps its contract: the conformance kit's checks."""

import gmlearn as gm


@gm.testing.parametrize_with_checks("highorder")
def test_contracts(thing, check):
    check(thing)
