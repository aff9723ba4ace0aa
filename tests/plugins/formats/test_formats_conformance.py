"""Everything that gmlearn_formats registers keeps its contract: the conformance kit's checks."""

import gmlearn as gm


@gm.testing.parametrize_with_checks("formats")
def test_contracts(thing, check):
    check(thing)
