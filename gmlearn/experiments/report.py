"""Tables as Markdown, and one self-contained HTML page per run."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmlearn.experiments.base import Run

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;
margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;
border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}img{max-width:100%}
figure{margin:1.5rem 0}figcaption{color:#555}
footer{color:#666;font-size:.85rem;margin-top:3rem;display:flex;
flex-wrap:wrap;gap:0 3rem;align-items:flex-start}"""


def cell(value: Any) -> str:
    """A table cell: floats with four significant digits, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, int):
        return str(value)
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)


def markdown_tables(run: Run) -> str:
    """All tables of a run as Markdown."""
    parts = [f"# {run.name}", ""]
    for title, header, rows in run.tables:
        parts += [f"## {title}", "", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
        parts += ["| " + " | ".join(cell(c) for c in row) + " |" for row in rows] + [""]
    return "\n".join(parts + [f"- {note}" for note in run.notes]) + "\n"


def html_report(run: Run) -> str:
    """The whole run as one page: figures inline, settings, versions, timing."""
    info = run.as_dict()
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(run.name)}</title>",
        f"<style>{_STYLE}</style><h1>{html.escape(run.name)}</h1>",
    ]
    parts += [f"<p>{html.escape(note)}</p>" for note in run.notes]
    for title, header, rows in run.tables:
        head = "".join(f"<th>{html.escape(h)}</th>" for h in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell(c))}</td>" for c in row) + "</tr>"
            for row in rows
        )
        parts.append(f"<h2>{html.escape(title)}</h2><table><tr>{head}</tr>{body}</table>")
    for filename, caption, path in run.figures:
        if path is not None:
            data = base64.b64encode(path.read_bytes()).decode()
            parts.append(
                f"<figure><img alt='{html.escape(filename)}' src='data:image/png;base64,{data}'>"
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            )
    parts.append(_facts(info))
    return "\n".join(parts)


def _facts(info: dict[str, Any]) -> str:
    """How the run was made, to repeat it: settings, seed, seconds, versions."""
    settings = {
        **info["settings"],
        "settings": "quick" if info["quick"] else "full",
        "seconds": info["seconds"],
    }
    del settings["quick"]
    ready = {step["ready"]: f"after {step['seconds']:.1f} s" for step in info["timings"]}
    columns = "".join(
        f"<table><tr><th>{title}</th><th></th></tr>"
        + "".join(
            f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(cell(v))}</td></tr>"
            for k, v in facts.items()
        )
        + "</table>"
        for title, facts in (
            ("settings", settings),
            ("versions", info["versions"]),
            ("ready", ready),
        )
    )
    return f"<footer>{columns}</footer>"
