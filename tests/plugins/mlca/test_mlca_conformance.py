"""Everything that gmlearn_mlca registers keeps its contract: the conformance kit's checks."""

import gmlearn as gm


@gm.testing.parametrize_with_checks("mlca")
def test_contracts(thing, check):
    check(thing)
