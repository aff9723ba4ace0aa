"""Every hook has a page of its own name, and every page a hook."""

import inspect
import re

import docs_code

from gmlearn.registry import hookspecs

HOOKS = [
    name
    for name, value in vars(hookspecs).items()
    if inspect.isfunction(value) and name.startswith("gmlearn_")
]
PAGES = docs_code.PAGES / "hooks"


def test_pages_and_hooks_correspond():
    assert sorted(p.stem for p in PAGES.glob("gmlearn_*.md")) == sorted(HOOKS)


def test_every_page_has_the_exact_name_and_an_implementation():
    for hook in HOOKS:
        text = (PAGES / f"{hook}.md").read_text("utf-8")
        assert text.startswith(f"# {hook}\n")
        assert f"@gm.hookimpl\ndef {hook}():" in text
        assert "**The contract.**" in text
        assert "**Who calls it.**" in text


def test_the_index_lists_all_hooks_and_what_they_return():
    text = (PAGES / "index.md").read_text("utf-8")
    for hook in HOOKS:
        assert f"[`{hook}`]({hook}.md)" in text
        # the class named in the specification is the class named in the table
        (spec,) = re.findall(r"``gmlearn\.(\w+)``", getattr(hookspecs, hook).__doc__)[:1]
        row = next(line for line in text.splitlines() if f"[`{hook}`]" in line)
        assert f"gm.{spec}" in row
