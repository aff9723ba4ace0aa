"""CFN files of toulbar2: cost function networks in JSON, or in the looser notation that toulbar2
also takes.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator

import numpy as np

import gmlearn as gm
from gmlearn_formats.cfn_scanner import INTEGER, Scanner, to_number, words_of
from gmlearn_formats.global_functions import GlobalTerms

_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)
_TO_BLANKS = bytes.maketrans(b',:"', b"   ")


class Cfn(gm.FileFormat):
    """Cost function networks: a sum of decimal costs over named variables, tables with the last
    variable fastest.

    ``"mustbe": "<x"`` minimises and asks for a total below x: an entry is forbidden if it reaches x
    together with the least entries of all other functions. ``">x"`` maximises, so that energies
    are minus the costs, and asks for a total above x. Tables are dense lists, tuple lists with
    ``defaultcost``, or the name of another function whose table they share. Functions with a
    ``type`` are read if WCSP files may have them too, and else refused by name.

    Brackets of both kinds serve for objects and lists; commas, colons and quotes may be left out; a
    line that starts with ``#`` is a comment. Names that look like numbers may be declared; where
    one differs from the position that it would otherwise mean, using it is refused.
    """

    name = "cfn"
    extensions = gm.compressed(".cfn")

    def read(self, path: str | os.PathLike) -> gm.CRF:
        scanner = Scanner(path, _COMMENT.sub(lambda m: b" " * len(m.group()), gm.read_text(path)))
        scanner.open("the network")
        scanner.tag("problem")
        sign, bound = _read_problem(scanner)
        scanner.tag("variables")
        states, variables, labels = _read_variables(scanner)
        builder = gm.ModelBuilder(states, scanner.fail, len(scanner.text))
        scanner.tag("functions")
        functions = _Functions(scanner, builder, variables, labels, sign, bound)
        functions.read_all()
        scanner.close("the end of the network")
        scanner.end()
        functions.add_all()
        crf = builder.finish()
        functions.terms.finish(crf)
        return crf


def _read_problem(scanner: Scanner) -> tuple[float, float]:
    """(sign that turns costs into energies, the energy that a labelling must not reach)."""
    text, line = scanner.raw_list('the problem: "name" and "mustbe"')
    words = words_of(text)
    bounds = [w for w in words if w[:1] in ("<", ">")]
    number = to_number(bounds[0][1:]) if len(bounds) == 1 else None
    if number is None:
        raise gm.FormatError(
            scanner.file, 'one "mustbe" such as "<10.5"', repr(" ".join(words)[:60]), line
        )
    sign = 1.0 if bounds[0][0] == "<" else -1.0
    return sign, sign * number


def _read_variables(scanner: Scanner) -> tuple[np.ndarray, dict[str, int], list[dict[str, int]]]:
    """Numbers of states, and what words mean: variables, and the labels of each (those with
    names only).
    """
    states: list[int] = []
    names: list[str | None] = []
    labels: list[dict[str, int]] = []
    scanner.open("the variables")
    while not scanner.at_bracket(b"]}"):
        name, domain = None, None
        if not scanner.at_bracket(b"[{"):
            domain = scanner.word("a variable")
            if not domain.is_integer:
                name, domain = domain.text, None
        if domain is None and not scanner.at_bracket(b"[{"):
            domain = scanner.word(f"the domain of variable {name!r}")
        if domain is None:
            values = words_of(scanner.raw_list(f"the domain of variable {len(states)}")[0])
            if len(set(values)) != len(values):
                scanner.fail("different values in a domain", f"a repeated one in {values[:8]}")
            states.append(len(values))
            labels.append(_positions(values))
        else:
            # -n is an interval of n values
            states.append(abs(int(domain.text)) if domain.is_integer else 0)
            labels.append({})
        if len(states) > gm.ModelBuilder.MAX_DECLARED:
            scanner.fail(f"at most {gm.ModelBuilder.MAX_DECLARED} variables", "more")
        if states[-1] < 1:
            scanner.fail(
                "a domain: a list of values, or how many there are",
                "none" if domain is None else repr(domain.text[:40]),
            )
        names.append(name)
    scanner.close("the end of the variables")
    given = [n for n in names if n is not None]
    if len(set(given)) != len(given) or not states:
        scanner.fail(
            "at least one variable, and different names",
            f"{len(names)} variables with {len(set(given))} names",
        )
    return np.array(states, np.int64), _positions(names), labels


def _positions(names: list) -> dict[str, int]:
    """Name -> position; -1 for a name that is also the number of another position."""
    return {
        n: -1 if INTEGER.fullmatch(n) and n != str(i) else i
        for i, n in enumerate(names)
        if n is not None
    }


def resolve(word: str, names: dict[str, int], n: int) -> int:
    """The position that a word means, -1 if none."""
    if word in names:
        return names[word]
    if INTEGER.fullmatch(word) and 0 <= int(word) < n:
        return int(word)
    return -1


class _Functions:
    """The cost functions of a file: first all are read, then references are followed."""

    def __init__(
        self,
        scanner: Scanner,
        builder: gm.ModelBuilder,
        variables: dict[str, int],
        labels: list[dict[str, int]],
        sign: float,
        bound: float,
    ):
        self.scanner = scanner
        self.builder = builder
        self.variables = variables
        self.labels = labels
        self.sign, self.bound = sign, bound
        self.scopes: list[np.ndarray] = []
        self.tables: list[np.ndarray | str] = []  # costs, or the name of the function that has them
        self.lines: list[int] = []
        self.named: dict[str, int] = {}
        self.terms = GlobalTerms(builder, scanner.fail, bound)
        # keyword, scope, parameters, line of each global function
        self.globals: list[tuple[str, np.ndarray, bytes, int]] = []

    def read_all(self) -> None:
        scanner = self.scanner
        scanner.open("the functions")
        while not scanner.at_bracket(b"]}"):
            name = (
                None if scanner.at_bracket(b"[{") else scanner.word("the name of a function").text
            )
            what = f"function {len(self.scopes) if name is None else repr(name)}"
            if name is not None and self.named.setdefault(name, len(self.scopes)) != len(
                self.scopes
            ):
                scanner.fail("different names of functions", f"{name[:40]!r} again")
            self._read_one(what)
        scanner.close("the end of the functions")

    def _read_one(self, what: str) -> None:
        scanner = self.scanner
        scanner.open(what)
        self.lines.append(scanner.line(scanner.position))
        scanner.tag("scope")
        scope = self._scope(*scanner.raw_list(f"the scope of {what}"), what)
        default = None
        if not scanner.at_bracket(b"[{"):
            tag = scanner.word(f"costs of {what}").text
            if tag == "defaultcost":
                text = scanner.word(f"the default cost of {what}").text
                default = to_number(text)
                if default is None:
                    scanner.fail(f"the default cost of {what}", repr(text[:40]))
                if not scanner.at_bracket(b"[{"):
                    tag = scanner.word(f"costs of {what}").text
            if tag == "type":
                self._read_global(scope, what)
                return
            if tag not in ("costs", "defaultcost"):
                scanner.fail(f'"costs" of {what}', repr(tag[:40]))
        shape = self.builder.shape(scope)
        if not scanner.at_bracket(b"[{"):
            self.tables.append(scanner.word(f"the costs of {what}").text)
        else:
            listed = scanner.raw_list(f"the costs of {what}")
            costs = (
                self._dense(*listed, shape, what)
                if default is None
                else self._sparse(*listed, scope, shape, default, what)
            )
            self.tables.append(self.sign * costs)
        self.scopes.append(scope)
        scanner.close(f"the end of {what}")

    def _read_global(self, scope: np.ndarray, what: str) -> None:
        """A keyword and its parameters, kept as WCSP files have them."""
        scanner = self.scanner
        keyword = scanner.word(f"the type of {what}").text
        if self.sign < 0:
            scanner.fail(f"a table as {what} where costs are maximised", f"type {keyword[:40]!r}")
        self.terms.check(keyword, len(scope))
        scanner.tag("params")
        names = self.labels[scope[0]] if len(scope) else {}
        words = list(parameter_words(scanner.nested(f"the parameters of {what}"), keyword, names))
        self.globals.append((keyword, scope, " ".join(words).encode(), self.lines.pop()))
        scanner.close(f"the end of {what}")

    def _scope(self, text: bytes, line: int, what: str) -> np.ndarray:
        words = words_of(text)
        n_vars = self.builder.crf.n_vars
        scope = [resolve(word, self.variables, n_vars) for word in words]
        if -1 in scope:
            raise gm.FormatError(
                self.scanner.file,
                f"variables in the scope of {what}, by name or as numbers in 0..{n_vars - 1}",
                repr(words[scope.index(-1)][:40]),
                line,
            )
        return np.array(scope, np.int64)

    def _dense(self, text: bytes, line: int, shape: tuple[int, ...], what: str) -> np.ndarray:
        tokens = gm.Tokens(self.scanner.file, text.translate(_TO_BLANKS), line)
        size = np.prod(shape, dtype=float)
        if size > tokens.left():  # also keeps a product of any length out of int()
            tokens.fail(
                f"{size:.15g} costs of {what}",
                f"a list with room for at most {tokens.left()}",
                index=0,
            )
        table = tokens.numbers(int(size), f"costs of {what}")
        tokens.end(f"the end of the {int(size)} costs of {what}")
        return table

    def _sparse(
        self,
        text: bytes,
        line: int,
        scope: np.ndarray,
        shape: tuple[int, ...],
        default: float,
        what: str,
    ) -> np.ndarray:
        words, width = words_of(text), len(shape) + 1
        if len(words) % width:
            raise gm.FormatError(
                self.scanner.file,
                f"{width - 1} labels and a cost in each tuple of {what}",
                f"{len(words)} words in all",
                line,
            )
        table = self.builder.default_table(shape, default)
        where = np.zeros(len(words) // width, np.int64)
        for column, (variable, n) in enumerate(zip(scope.tolist(), shape)):
            names = self.labels[variable]
            found = [resolve(word, names, n) for word in words[column::width]]
            if -1 in found:
                raise gm.FormatError(
                    self.scanner.file,
                    f"labels of variable {variable} in {what}, by name or in 0..{n - 1}",
                    repr(words[column::width][found.index(-1)][:40]),
                    line,
                )
            where = where * n + np.array(found, np.int64)
        numbers = [to_number(word) for word in words[width - 1 :: width]]
        if None in numbers:
            bad = words[width - 1 :: width][numbers.index(None)]
            raise gm.FormatError(
                self.scanner.file, f"costs of {what}: numbers", repr(bad[:40]), line
            )
        costs = np.array(numbers, float)
        table[where] = costs
        if (table[where] != costs).any():
            raise gm.FormatError(
                self.scanner.file, f"one cost for each tuple of {what}", "two for one of them", line
            )
        return table

    def add_all(self) -> None:
        """Follow the references, forbid what no total below the bound can have, and hand
        everything to the builder, global functions to their terms.
        """
        for function, scope in enumerate(self.scopes):
            target, seen = function, {function}
            while isinstance(name := self.tables[target], str):
                target = self.named.get(name, -1)
                same = target >= 0 and self.builder.shape(
                    self.scopes[target]
                ) == self.builder.shape(scope)
                if not same or target in seen:
                    raise gm.FormatError(
                        self.scanner.file,
                        f"costs, or another function over {self.builder.shape(scope)} states "
                        f"that has them",
                        repr(name[:40]),
                        self.lines[function],
                    )
                seen.add(target)
            for member in seen:  # so that a long chain of references is walked once
                self.tables[member] = name
        tables: list[np.ndarray] = self.tables  # type: ignore[assignment]
        least = [float(t.min(initial=np.inf)) for t in tables]
        distinct = {id(t): (t, low) for t, low in zip(tables, least)}
        for table, low in distinct.values():
            table[table + math.fsum([*least, -low]) >= self.bound] = np.inf
        for scope, table in zip(self.scopes, tables):
            self.builder.add(scope, table)
        self.terms.bound = self.bound - math.fsum(least)
        for keyword, scope, text, line in self.globals:
            tokens = gm.Tokens(self.scanner.file, text, line)
            self.terms.read(tokens, keyword, scope)
            tokens.end(f"the end of the parameters of {keyword}")


#: names of parameters, which may be left out
_TAGS = (
    *("metric", "cost", "min", "max", "values", "bounds"),
    *("comparator", "to", "rhs", "capacity", "weights"),
)


def parameter_words(items: list, keyword: str, names: dict[str, int]) -> Iterator[str]:
    """The parameters of a global function in the order of WCSP files: lists with their lengths in
    front, unless the scope gives these; labels as numbers.
    """
    for item in items:
        if isinstance(item, str):
            if item not in _TAGS:
                yield item
            continue
        nested = any(isinstance(inner, list) for inner in item)
        if keyword != "knapsack" and not (keyword == "clique" and nested):
            yield str(len(item))
        for inner in item:
            if isinstance(inner, list):
                if keyword == "clique":
                    yield str(len(inner))
                first = str(names.get(inner[0], inner[0])) if inner else ""
                yield from [first, *inner[1:]]
            else:
                yield str(names.get(inner, inner))
