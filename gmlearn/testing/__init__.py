"""The conformance kit: checks for every contract of gmlearn, for our own plugins and for anybody's.

One line in a plugin's tests runs all of them on all that it registers::

    @gm.testing.parametrize_with_checks("my_plugin")
    def test_contracts(thing, check):
        check(thing)

and ``gm.testing.check(thing)`` (from the shell ``gmlearn check NAME``) does the same for one thing.
The checks are plain functions, in ``gm.testing.checks_of(kind)``. What the kit needs of a thing:

- slave solver: ``examples(rng)``, small bound blocks with weights; ``large_examples(rng)``, blocks
  that are too large for enumeration; ``soft_exact = False`` if its log-partition only bounds.
  ``check(solver, layer=True)`` checks gradients under a network as well.
- potential: nothing if a slave solver has it among its examples; else class methods
  ``examples(rng)`` and ``large_examples(rng)`` of the same kind.
- slave group: ``check(group, weights=w)``; ``energy(labels, w)`` and ``ptr`` where it is to be
  compared with enumeration.
- loss: nothing if it needs no parameters; else a class method ``examples(rng)``, a list of (loss,
  crf, truth).
- decomposition, solver, marginal method: nothing; ``examples(rng)``, a list of (crf, weights), if
  it refuses the kit's own models; for a solver ``large_examples(rng)`` likewise.
- trainer: nothing; ``examples(rng)``, a list of (samples, options of `TrainingOptions`), if it
  refuses the kit's own samples.
- file format, experiment, optimiser: nothing.

``gm.testing.run_fuzz(name)`` (from the shell ``gmlearn check NAME --fuzz``) mutates files of
potentials, and reads and uses them in children that may die.

A failure that is known is listed in the class attribute ``known_failures = {check name: reason}``;
it is reported as such, and as an error once it passes.
"""

from gmlearn.testing import (
    decomposition_checks,
    edge_checks,
    large_checks,
    layer_checks,
    learn_checks,
    loss_checks,
    marginal_checks,
    potential_checks,
    slave_checks,
    soft_checks,
    solver_checks,
)
from gmlearn.testing.brute_force import SlaveTables, brute_force
from gmlearn.testing.door import (
    loopback,
    parametrize_with_checks,
    run_checks,
    run_fuzz,
    solvers_of,
    things_of,
)
from gmlearn.testing.fuzzing import FuzzReport, fuzz
from gmlearn.testing.kit import (
    Check,
    GroupCase,
    KnownFailureWarning,
    NotApplicable,
    check,
    checks_for,
    checks_of,
)
from gmlearn.testing.models import MarkedClique, marked_crf, random_crf, random_labels

__all__ = [
    "Check",
    "FuzzReport",
    "GroupCase",
    "KnownFailureWarning",
    "MarkedClique",
    "NotApplicable",
    "SlaveTables",
    "brute_force",
    "check",
    "checks_for",
    "checks_of",
    "decomposition_checks",
    "edge_checks",
    "fuzz",
    "large_checks",
    "layer_checks",
    "learn_checks",
    "loopback",
    "loss_checks",
    "marginal_checks",
    "marked_crf",
    "parametrize_with_checks",
    "potential_checks",
    "random_crf",
    "random_labels",
    "run_checks",
    "run_fuzz",
    "slave_checks",
    "soft_checks",
    "solver_checks",
    "solvers_of",
    "things_of",
]
