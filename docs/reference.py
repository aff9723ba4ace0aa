"""A hook of mkdocs: the pages of the API reference, made from the public names at every build.

Names are exported lazily, so a page asks for each name where it is defined and shows it as users
write it.
"""

from __future__ import annotations

import ast
import enum
import importlib.resources
import inspect
import re
import textwrap
from typing import Any

#: page -> title, what to say about it
CORE = (
    "The core",
    "Everything here is a name of the package: `import gmlearn as gm`, then `gm.solve` and so on.",
)
PLUGINS = (
    "Plugins",
    "What the plugin packages export; each is imported by its own name, such as `from "
    "gmlearn_mlca import MLCA`.",
)
MODULES = ("Pictures and the kit", "`gm.plot` and `gm.testing` are modules of the package.")
PACKAGES = (
    "gmlearn_highorder",
    "gmlearn_clustering",
    "gmlearn_mlca",
    "gmlearn_multicut",
    "gmlearn_vision",
    "gmlearn_groupfs",
    "gmlearn_pointsets",
    "gmlearn_structured",
)

#: public objects that carry no docstring
NOTES = {
    "gm.hookimpl": "Decorator: the function implements the hook of its name, see "
    "[Hooks](../hooks/index.md).",
    "gm.plot.PALETTE": "Okabe and Ito's eight colours, told apart by everyone; a tuple of hex "
    "codes.",
}


def entry(shown: str, value: Any) -> str:
    """One public name: a directive for mkdocstrings where it has a docstring of its own."""
    if shown in NOTES:
        return f"### {shown}\n\n{NOTES[shown]}\n"
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return f"### {shown}\n\nAn object of type `{type(value).__name__}`.\n"
    # the heading and the signature are ours, so that both say the name as users write it
    return (
        f"### {shown}\n\n```python\n{signature(shown, value)}\n```\n\n::: "
        f"{value.__module__}.{value.__qualname__}\n"
        f"    options:\n      show_root_heading: false\n      heading_level: 4\n"
    )


def signature(shown: str, value: Any) -> str:
    """How to call it, without annotations (the docstring says them with shapes), in lines of a
    hundred characters.
    """
    if inspect.isclass(value) and issubclass(value, (Exception, enum.Enum)):  # nobody calls these
        return f"class {shown}({value.__mro__[1].__name__})"
    parts = inspect.signature(value).parameters.values()
    plain = inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parts])
    text = shown + re.sub(r"<(?:function|class) .?([\w.]+).*?>", r"\1", str(plain)).replace(
        "<factory>", "..."
    )
    return "\n".join(
        textwrap.wrap(
            text, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    )


def section(title: str, shown: str, names: list[str], holder: Any) -> str:
    return "\n".join(
        [f"## {title}\n", *(entry(f"{shown}{name}", getattr(holder, name)) for name in names)]
    )


def core() -> str:
    import gmlearn as gm

    rooms: dict[str, list[str]] = {}
    stub = importlib.resources.files(gm).joinpath("__init__.pyi").read_text("utf-8")
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").count("."):
            room = str(node.module).split(".")[1].lstrip("_")
            rooms.setdefault(room, []).extend(alias.name for alias in node.names)
    rooms.pop("version")
    return "\n".join(section(room.capitalize(), "gm.", names, gm) for room, names in rooms.items())


def plugins() -> str:
    holders = [importlib.import_module(package) for package in PACKAGES]
    return "\n".join(section(h.__name__, "", list(h.__all__), h) for h in holders)


def modules() -> str:
    import gmlearn as gm

    public = [n for n in gm.testing.__all__ if not inspect.ismodule(getattr(gm.testing, n))]
    parts = (("gm.plot", gm.plot.__all__, gm.plot), ("gm.testing", public, gm.testing))
    return "\n".join(section(title, f"{title}.", names, holder) for title, names, holder in parts)


PAGES = {
    "reference/core.md": (CORE, core),
    "reference/plugins.md": (PLUGINS, plugins),
    "reference/modules.md": (MODULES, modules),
}


def page(source: str) -> str:
    """The markdown of one generated page."""
    (title, lead), body = PAGES[source]
    return f"# {title}\n\n{lead}\n\n{body()}"


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs: add the generated pages to the files of the site."""
    from mkdocs.structure.files import File

    for source in PAGES:
        files.append(File.generated(config, source, content=page(source)))
    return files
