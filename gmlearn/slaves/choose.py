"""Ask, do not list: the cheapest registered solver that does not refuse a block."""

from __future__ import annotations

from gmlearn.potentials.base import MAX_TABLE_ENTRIES, Block
from gmlearn.potentials.ragged_block import RaggedBlock
from gmlearn.registry import registry
from gmlearn.slaves.base import SlaveSolver


class NoSolverError(LookupError):
    """No registered slave solver can take a block."""


def choose_solver(block: Block, power: str | None = None, name: str | None = None) -> SlaveSolver:
    """The slave solver for `block`: the named one, or the one whose `power` is cheapest, exact ones
    first.

    Parameters
    ----------
    power : None for "minimise", "min_marginals" or "log_partition".
    name : a registered solver that must be used.
    """
    if name is not None:
        solver = registry.get("slave solver", name)
        reason = solver.refuses(block)
        if reason is not None:
            raise NoSolverError(f"slave solver {name!r} refuses {block}: {reason}")
        return solver
    willing, refusals = [], []
    for solver in registry.objects("slave solver"):
        reason = solver.refuses(block)
        if reason is None and power is not None and not solver.has(power):
            reason = f"has no {power}"
        if reason is None:
            willing.append(solver)
        else:
            refusals.append(f"{solver.name} ({reason})")
    if not willing:
        raise NoSolverError(
            f"No slave solver handles {block}{f' with {power}' if power else ''}. "
            f"Tried: {'; '.join(refusals) or 'none registered'}. "
            f"Install a plugin for {block.name!r} potentials or add a solver with gmlearn.register."
        )
    return min(willing, key=lambda s: (not s.exact, s.cost(block, power or "minimise")))


def has_edge_form(block: Block) -> bool:
    """May trees and messages hold the block: edges whose pairwise form is small, or costs no more
    than the block's own slaves do?
    """
    if block.arity != 2 or isinstance(block, RaggedBlock):
        return False
    size = block.form_size()
    if size < len(block):  # a table has one entry or more
        return size <= MAX_TABLE_ENTRIES
    if size > MAX_TABLE_ENTRIES:
        return False
    dense = Block.form_size(block)
    return size < dense or size <= choose_solver(block).cost(block)
