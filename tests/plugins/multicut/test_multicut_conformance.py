"""Everything that gmlearn_multicut registers keeps its contract: the conformance kit's checks."""

import gmlearn as gm


@gm.testing.parametrize_with_checks("multicut")
def test_contracts(thing, check):
    check(thing)
