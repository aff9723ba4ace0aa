"""What a check is, which checks a thing must pass, and how a failure is reported."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmlearn.registry import KINDS, expected_things, registry

#: kinds of slaves, and the kind of the checks of slaves under a network
SLAVES, LAYER = ("slave solver", "slave group"), "layer"
#: absolute and relative difference that counts as rounding
TOL = 1e-8
#: random seeds that every check is repeated with; where each has a dozen models, fewer
N_SEEDS = 4
FEWER_SEEDS = {
    "solver": 1,
    "marginal method": 1,
    "optimizer": 1,
    "trainer": 2,
    "decomposition": 2,
    "format": 2,
}


class NotApplicable(Exception):
    """A check has nothing to look at in this thing; the message says why. Reported, never passed
    over in silence.
    """


class KnownFailureWarning(UserWarning):
    """A thing fails a check that it lists in its ``known_failures``."""


@dataclass(frozen=True)
class GroupCase:
    """A slave group with weights, as a thing that `check` and `parametrize_with_checks` accept."""

    group: Any
    w: dict[str, np.ndarray]
    registry_kind = "slave group"

    @property
    def name(self) -> str:
        return type(self.group).__name__

    @property
    def known_failures(self) -> dict[str, str]:
        return getattr(self.group, "known_failures", {})

    def has(self, power: str) -> bool:
        return self.group.has(power)


#: (kind, large?) -> function(thing, rng) that yields the arguments of its checks
_CASES: dict[tuple[str, bool], Callable[[Any, np.random.Generator], Iterable[tuple]]] = {}
_CHECKS: dict[str, list[Check]] = {}
#: the thing checked last, and its examples by seed
_latest: list[Any] = []


@dataclass(frozen=True)
class Check:
    """One check of one kind of thing; call it with the thing. AssertionError with the numbers if it
    fails.

    Parameters
    ----------
    needs : an optional power ("min_marginals", "log_partition") without which the check does not
        concern a thing.
    whole : the function takes (thing, rng), not the examples one by one.
    large : the function takes the examples that are too large for enumeration.
    """

    kind: str
    name: str
    function: Callable[..., None]
    needs: str | None = None
    whole: bool = False
    large: bool = False

    def concerns(self, thing: Any) -> bool:
        """Has the thing the power that this check looks at?"""
        return self.needs is None or thing.has(self.needs)

    def __call__(self, thing: Any, n_seeds: int | None = None) -> None:
        applied, reasons = 0, set()
        n_seeds = FEWER_SEEDS.get(self.kind, N_SEEDS) if n_seeds is None else n_seeds
        for seed in range(1 if self.whole or self.large else n_seeds):
            for number, case in enumerate(self._cases(thing, seed)):
                try:
                    self.function(*case, np.random.default_rng([seed, number, 1]))
                    applied += 1
                except NotApplicable as reason:
                    reasons.add(str(reason))
                except Exception as error:  # a crash of the thing is a failure of the check
                    self._fail(thing, f"seed {seed}, example {number}{_short(thing, case)}", error)
        if not applied:
            raise NotApplicable(
                "; ".join(sorted(reasons))
                or (
                    "it brings no large_examples(rng)"
                    if self.large
                    else "there is nothing to check it on, see check_has_examples"
                )
            )

    def _cases(self, thing: Any, seed: int) -> Iterable[tuple]:
        if self.whole:
            return [(thing,)]
        try:
            return examples_of(thing, seed, self.large)
        except NotApplicable:
            raise
        except Exception as error:
            self._fail(thing, f"seed {seed}, while making examples", error)
            raise

    def _fail(self, thing: Any, where: str, error: Exception) -> None:
        what = (
            str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        )
        owners = [f"plugin {e.owner!r}, " for e in registry.entries() if e.obj is thing]
        raise AssertionError(
            f"{self.name} failed for the {self.kind} {name_of(thing)!r} "
            f"({''.join(owners)}{where}): {what}"
        ) from error

    def __repr__(self) -> str:
        return self.name


def check_of(
    *kinds: str, needs: str | None = None, whole: bool = False, large: bool = False
) -> Callable:
    """Decorator: the function is a check of things of these kinds."""

    def register(function: Callable) -> Callable:
        for kind in kinds:
            _CHECKS.setdefault(kind, []).append(
                Check(kind, function.__name__, function, needs, whole, large)
            )
        return function

    return register


def cases_of(*kinds: str, large: bool = False) -> Callable:
    """Decorator: the function yields the arguments for the (large) checks of these kinds."""

    def register(function: Callable) -> Callable:
        _CASES.update({(kind, large): function for kind in kinds})
        return function

    return register


def checks_of(kind: str) -> list[Check]:
    """All checks of a kind of thing ("slave solver", "potential", "loss", ...)."""
    if kind not in _CHECKS:
        raise ValueError(f"kind: expected one of {sorted(_CHECKS)}, got {kind!r}")
    return sorted(_CHECKS[kind], key=lambda one: one.large)


def checks_for(thing: Any) -> list[Check]:
    """The checks that concern a thing: those of its kind, less those of powers that it does not
    claim.
    """
    found = checks_of(kind_of(thing))
    unknown = [name for name in known_failures(thing) if name not in {c.name for c in found}]
    if unknown:
        raise ValueError(
            f"{name_of(thing)}.known_failures: no check is named {unknown[0]!r}; "
            f"checks: {', '.join(c.name for c in found)}"
        )
    return [c for c in found if c.concerns(thing)]


def kind_of(thing: Any) -> str:
    """The kind of a thing, as its base class says."""
    kind = getattr(thing, "registry_kind", None)
    if kind not in _CHECKS:
        raise TypeError(
            f"thing: expected {expected_things()}, or a slave group with weights=..., got "
            f"{thing!r}; what is registered under a name is checked by "
            f"gmlearn.testing.run_checks(name)"
        )
    if isinstance(thing, type) and kind in KINDS and not KINDS[kind].by_class:
        raise TypeError(
            f"thing: expected an object of the class {thing.__name__}, got the class itself; pass "
            f"{thing.__name__}(...), with the arguments that it needs"
        )
    return kind


def known_failures(thing: Any) -> dict[str, str]:
    """Check name -> reason."""
    return dict(getattr(thing, "known_failures", None) or {})


def name_of(thing: Any) -> str:
    """What a thing is called in reports."""
    return str(getattr(thing, "name", "") or getattr(thing, "__name__", type(thing).__name__))


def examples_of(thing: Any, seed: int = 0, large: bool = False) -> list[tuple]:
    """The arguments that the (large) checks of a thing get, one tuple for each example."""
    # the checks of one thing run one after the other, and examples may be costly to make
    if not (_latest and _latest[0] is thing):
        _latest[:] = [thing, {}]
    made = _latest[1]
    if (seed, large) not in made:
        rng = np.random.default_rng(seed)
        made[seed, large] = list(_CASES[kind_of(thing), large](thing, rng))
    return made[seed, large]


def forget_examples() -> None:
    """Make examples anew for the next check."""
    _latest.clear()


def check(thing: Any, weights: dict[str, Any] | None = None, layer: bool = False) -> None:
    """Run every check of the thing's kind; AssertionError with the check, the thing and the numbers
    at the first failure.

    Parameters
    ----------
    thing : a registered name's object or class, or a slave group.
    weights : the weights that a slave group reads (groups only).
    layer : check slaves under a network too: the gradients of structured losses.

    Examples
    --------
    >>> import gmlearn as gm
    >>> gm.testing.check(gm.Potts)
    """
    from gmlearn.slaves.base import SlaveGroup

    if isinstance(thing, SlaveGroup):
        thing = GroupCase(
            thing, {name: np.asarray(value, float) for name, value in (weights or {}).items()}
        )
    further = []
    if layer:
        if kind_of(thing) not in SLAVES:
            raise TypeError(f"layer: only slave solvers and groups are checked, got {thing!r}")
        further = [one for one in checks_of(LAYER) if one.concerns(thing)]
    for one in [*checks_for(thing), *further]:
        ok, message = outcome(one, thing)
        if not ok:
            raise AssertionError(message)
        if message.startswith("known failure"):
            warnings.warn(f"{one.name}: {message}", KnownFailureWarning, stacklevel=2)


def outcome(one: Check, thing: Any, n_seeds: int | None = None) -> tuple[bool, str]:
    """Did the thing pass, or fail as it said it would? With the message."""
    reason = known_failures(thing).get(one.name)
    try:
        one(thing, n_seeds)
    except NotApplicable as why:
        return True, f"not applicable: {why}"
    except AssertionError as error:
        return (False, str(error)) if reason is None else (True, f"known failure: {reason}")
    if reason is not None:
        return (
            False,
            f"{one.name} passes for {name_of(thing)!r}, but is listed in known_failures "
            f"({reason}); remove it there",
        )
    return True, ""


@check_of("slave solver", "potential", "loss", "decomposition", "solver", "trainer", whole=True)
def check_has_examples(thing: Any, rng: np.random.Generator) -> None:
    """There is something to check the thing on."""
    expect(
        len(examples_of(thing)) > 0,
        "nothing to check it on: define examples(rng), see gmlearn.testing for what it returns",
    )


# ---------------------------------------------------------------------- how checks speak


def expect(condition: Any, message: str) -> None:
    """AssertionError with `message` unless all of `condition` holds; works under ``python -O``
    too.
    """
    if not np.all(condition):
        raise AssertionError(message)


def answer_of(what: str, call: Callable[[], Any]) -> Any:
    """What `call` returns; AssertionError that names `what` if it raises."""
    try:
        return call()
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error


def expect_in_time(
    run: Callable[[], Any],
    limit: float,
    what: str,
    clock: Callable[[], float] = time.perf_counter,
    tries: int = 10,
) -> Any:
    """What `run` returns; AssertionError if so many calls of it all take longer than `limit`
    seconds (some may meet a busy machine, or compile).
    """
    for _ in range(tries):
        start = clock()
        result = run()
        seconds = clock() - start
        if seconds <= limit:
            return result
    raise AssertionError(
        f"took more than {limit:.3g} s in {tries} runs {what}, {seconds:.3g} s at last"
    )


def expect_close(found: Any, truth: Any, what: str, tol: float = TOL) -> None:
    """Equal up to rounding, inf equal to inf only, NaN to nothing."""
    found, truth = np.asarray(found, float), np.asarray(truth, float)
    expect(found.shape == truth.shape, f"{what}: shape {found.shape}, expected {truth.shape}")
    wrong = np.flatnonzero(~np.isclose(found, truth, rtol=tol, atol=tol).ravel())
    if wrong.size:
        i = int(wrong[0])
        raise AssertionError(
            f"{what}: {float(found.ravel()[i])!r}, expected {float(truth.ravel()[i])!r} "
            f"(entry {i}; {wrong.size} of {found.size} wrong)"
        )


def expect_below(found: Any, limit: Any, what: str) -> None:
    """`found` exceeds `limit` nowhere, up to rounding; `what` says what it would mean."""
    found, limit = np.atleast_1d(found), np.atleast_1d(limit)
    above = found > limit + TOL * (1 + np.abs(np.where(np.isfinite(limit), limit, 0)))
    expect(~above, f"{what}: {found[above][:1]} > {limit[above][:1]}")


def expect_features(found: Any, truth: dict[str, Any], what: str) -> None:
    """Feature mappings are equal; a segment left out counts as zeros."""
    extra = [name for name in found if name not in truth]
    expect(not extra, f"{what}: unknown segments {extra}, expected {sorted(truth)}")
    for name, value in truth.items():
        expect_close(found.get(name, np.zeros(np.shape(value))), value, f"{what}[{name!r}]")


def dot(features: dict[str, np.ndarray], w: dict[str, np.ndarray]) -> float:
    """w . features over all segments."""
    return sum(float(np.sum(value * w[name])) for name, value in features.items())


def _short(thing: Any, case: tuple) -> str:
    """The example, in a few words: the first argument that is not the thing itself."""
    parts = [
        part
        for part in case
        if part is not thing and getattr(part, "registry_kind", "") not in ("loss", "decomposition")
    ]
    text = f": {parts[0]!r}" if parts else ""
    return text if len(text) < 160 else text[:157] + "..."
