"""The whole model in one numpy archive: variables, costs, blocks by registered name, and
weights.
"""

from __future__ import annotations

import json
import numbers
import os
from typing import Any

import numpy as np

from gmlearn.io.archive import read_archive, write_archive
from gmlearn.io.base import FileFormat, FormatError, Path
from gmlearn.model import CRF
from gmlearn.potentials import Block, RaggedArrays
from gmlearn.registry import registry

FORMAT, VERSION = "gmlearn-model", 2
#: weights that the blocks of a file may ask for
MAX_WEIGHTS = 2**27
#: labels of members at which a block is tried out
TRIED_LABELS = 2**20
State = dict[str, Any]


class Npz(FileFormat):
    """Models as ``.npz``, without pickle: nothing in a file is ever executed.

    The archive holds ``n_states``, ``unary``, the arrays of each block as ``block<i>.<argument>``,
    weights as ``weights<i>``, and ``header``, JSON in UTF-8 bytes, with the potentials' names and
    the arguments that are not arrays.

    A block is stored by the arguments of its constructor (`Block.state`), and made again by calling
    it: whatever a constructor refuses by hand, it refuses in a file. Reading needs the same
    potentials to be registered; every block is bound to the model, which checks ranges and shapes,
    and evaluated at its first and last labels.
    """

    name = "npz"
    extensions = (".npz",)

    def read(self, path: Path) -> CRF:
        return _read_all(path)[0]

    def write(self, crf: CRF, path: Path, weights: Any = None) -> None:
        write_archive(path, pack_model(crf, path, weights))


def pack_model(crf: CRF, path: Path, weights: Any = None) -> dict[str, np.ndarray]:
    """The arrays of a model as they are stored in the file `path`."""
    header: State = {"format": FORMAT, "version": VERSION, "blocks": [], "weights": None}
    arrays = {
        "n_states": crf.n_states,
        "unary": crf.unary,
        "constant": np.array([float(crf.constant)]),
    }
    for i, block in enumerate(crf.blocks):
        values, own, lists = _split(block, _state_of(crf, block, path))
        arrays.update({f"block{i}.{name}": array for name, array in own.items()})
        header["blocks"].append(
            {"potential": block.name, "values": values, "arrays": list(own), "lists": lists}
        )
    if weights is not None:
        checked = crf.check_weights(weights)
        header["weights"] = list(checked)
        arrays.update({f"weights{i}": array for i, array in enumerate(checked.values())})
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return arrays


def read_weights(path: Path) -> dict[str, np.ndarray] | None:
    """The weights stored beside the model of an ``.npz``, by segment; None if there are none."""
    return _read_all(path)[1]


# ---------------------------------------------------------------------- writing


def _state_of(crf: CRF, block: Block, path: Path) -> State:
    """The arguments that make the block again; made from its attributes, they are tried."""
    kind = type(block)
    if registry.get("potential", block.name) is not kind:
        raise ValueError(
            f"{os.fspath(path)}: the potential {block.name!r} is registered for another class than "
            f"{kind.__name__}; register the block's class (gmlearn.register) before writing"
        )
    state = dict(block.state())
    _split(block, state)
    if kind.state is Block.state:
        try:
            again = vars(kind.from_state(state).bind(crf.n_states))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ValueError(
                f"{block}: not made again by {kind.__name__}({', '.join(state)}) ({error}); give "
                f"the class state(), the arguments that make the block again"
            ) from None
        for name, value in vars(block).items():
            if isinstance(value, np.ndarray) and not np.array_equal(value, again.get(name, ())):
                raise ValueError(
                    f"{block}: {kind.__name__}({', '.join(state)}) has another {name!r}; give the "
                    f"class state(), the arguments that make the block again"
                )
    return state


def _split(block: Block, state: State) -> tuple[State, dict[str, np.ndarray], list[str]]:
    """(plain values, arrays, names of the sequences of arrays) of a block's state."""
    values: State = {}
    arrays: dict[str, np.ndarray] = {}
    lists = []
    for name, value in state.items():
        if isinstance(value, RaggedArrays):
            arrays |= {name: value.values, f"{name}.sizes": value.sizes}
            lists.append(name)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[name] = value
        elif value is None or isinstance(value, (bool, str)):
            values[name] = value
        elif isinstance(value, (np.bool_, numbers.Integral, numbers.Real)):
            values[name] = value.item() if isinstance(value, np.generic) else value
        else:
            raise ValueError(
                f"{block}: the argument {name!r} is of type {type(value).__name__}; only arrays of "
                f"numbers, gm.RaggedArrays, numbers, strings, bools and None are stored. Give the "
                f"class state() and from_state(dict)."
            )
    return values, arrays, lists


# ---------------------------------------------------------------------- reading


def _read_all(path: Path) -> tuple[CRF, dict[str, np.ndarray] | None]:
    """The model and its weights; every array of the archive must belong to one of them."""
    return unpack_model(path, read_archive(path))


def unpack_model(
    path: Path, arrays: dict[str, np.ndarray]
) -> tuple[CRF, dict[str, np.ndarray] | None]:
    """The model and its weights in the arrays of an archive, all of which must belong to one of
    them.
    """
    header = _read_header(path, arrays)
    crf = _read_variables(path, arrays)
    for i, described in enumerate(header["blocks"]):
        _read_block(path, crf, i, described, arrays)
    weights = _take_weights(path, crf, header, arrays)
    if arrays:
        raise FormatError(
            path, "no array beyond those of the header", repr(next(iter(arrays))[:60])
        )
    return crf, weights


def _read_header(path: Path, arrays: dict[str, np.ndarray]) -> State:
    raw = arrays.pop("header", None)
    if raw is None or raw.dtype != np.uint8 or raw.ndim != 1:
        raise FormatError(path, "a model of gmlearn, with a header", "an archive without one")
    try:
        header = json.loads(raw.tobytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(
            path, "JSON in the header", f"{type(error).__name__}: {str(error)[:80]}"
        ) from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FormatError(path, f"the format {FORMAT!r}", str(header)[:60])
    if header.get("version") != VERSION:
        raise FormatError(
            path,
            f"version {VERSION} of {FORMAT}",
            f"version {str(header.get('version'))[:40]}; another gmlearn has written it",
        )
    weights = header.setdefault("weights", False)
    if not isinstance(header.get("blocks"), list) or not (weights is None or _strings(weights)):
        raise FormatError(path, 'lists "blocks" and "weights" in the header', str(header)[:60])
    return header


def _read_variables(path: Path, arrays: dict[str, np.ndarray]) -> CRF:
    states = _vector(path, arrays, "n_states", np.int64)
    unary = _vector(path, arrays, "unary", np.float64)
    # Every number is compared before the sum, which could wrap around.
    if (states < 1).any() or (states > unary.size).any() or int(states.sum()) != unary.size:
        raise FormatError(
            path, "one entry of unary for each state", f"{unary.size} for {states.size} variables"
        )
    constant = _vector(path, arrays, "constant", np.float64)
    if constant.shape != (1,) or not np.isfinite(constant[0]):
        raise FormatError(path, "one finite constant", f"{constant.tolist()[:3]}")
    crf = CRF(states)
    crf.unary, crf.constant = unary, float(constant[0])
    return crf


def _vector(path: Path, arrays: dict[str, np.ndarray], name: str, dtype: type) -> np.ndarray:
    array = arrays.pop(name, None)
    if array is None or array.dtype != dtype or array.ndim != 1:
        raise FormatError(
            path,
            f"{name}, one dimension of {np.dtype(dtype)}",
            "none" if array is None else f"shape {array.shape} of {array.dtype}",
        )
    return array


def _read_block(
    path: Path, crf: CRF, i: int, described: Any, arrays: dict[str, np.ndarray]
) -> None:
    """Rebuild block `i`, add it to the model and try it out."""
    if not (
        isinstance(described, dict)
        and isinstance(described.get("potential"), str)
        and isinstance(described.get("values"), dict)
        and _strings(described.get("arrays"))
        and _strings(described.get("lists"))
    ):
        wanted = f'"potential", "values", "arrays" and "lists" of block {i}'
        raise FormatError(path, wanted, str(described)[:60])
    kind = registry.get("potential", described["potential"])
    state = dict(described["values"])
    for name, value in state.items():
        if (
            not (value is None or isinstance(value, (bool, int, float, str)))
            or value != value
            or value == -np.inf
        ):
            raise FormatError(
                path,
                f"a number, string, bool or null as {name[:40]!r} of block {i}",
                str(value)[:40],
            )
    for name in described["arrays"]:
        array = arrays.pop(f"block{i}.{name}", None)
        if array is None or name in state:
            raise FormatError(
                path,
                f"one array {name[:40]!r} of block {i}",
                "none" if array is None else "a value of that name",
            )
        state[name] = array
    try:
        for name in described["lists"]:
            state[name] = RaggedArrays(state[name], state.pop(f"{name}.sizes"))
        _try_out(crf.add(kind.from_state(state)))
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        MemoryError,
    ) as error:
        raise FormatError(
            path,
            f"a sound block {i}, {described['potential'][:40]!r}",
            f"{type(error).__name__}: {str(error)[:200]}",
        ) from None


def _try_out(block: Block) -> None:
    """Evaluate cliques of a bound block where all labels are first and where all are last."""
    segments = block.segments()
    sizes = [float(np.prod(shape, dtype=float)) for shape in segments.values()]
    if sum(sizes) > MAX_WEIGHTS:
        raise ValueError(f"{sum(sizes):.3g} weights, more than {MAX_WEIGHTS}")
    if len(block) == 0:
        return
    weights = {name: np.zeros(shape) for name, shape in segments.items()}
    # as many cliques as memory is sure to hold
    some = min(len(block), max(1, TRIED_LABELS // (block.max_states * block.arity)))
    block = block.take(np.linspace(0, len(block) - 1, some).astype(np.int64))
    last = block.shape_members(block.member_states - 1)
    for x in (np.zeros_like(last), last):
        with np.errstate(all="ignore"):
            energy = block.energy(x, weights)
        if (
            not isinstance(energy, np.ndarray)
            or energy.shape != (len(block),)
            or np.isnan(energy).any()
        ):
            raise ValueError("energies are not one number for each clique")


def _take_weights(
    path: Path, crf: CRF, header: State, arrays: dict[str, np.ndarray]
) -> dict[str, np.ndarray] | None:
    names = header["weights"]
    if names is None:
        return None
    given = {name: arrays.pop(f"weights{i}", None) for i, name in enumerate(names)}
    try:
        return crf.check_weights(given)
    except ValueError as error:
        raise FormatError(path, "weights that fit the model", str(error)[:200]) from None


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)
