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
h1{font-size:1.6rem}h2{font-size:1.15rem}div,pre{overflow-x:auto}
dt{font-weight:600;float:left;clear:left;margin-right:.6rem}dd{margin:0}
dd:after{content:"";display:block;clear:left}pre{background:#f4f4f6;padding:.8rem}
figure{margin:1.5rem 0}figcaption{color:#555}
footer{color:#666;font-size:.85rem;margin-top:3rem;display:flex;
flex-wrap:wrap;gap:0 3rem;align-items:flex-start}
@media(max-width:30rem){table{font-size:.8rem}td,th{padding:.25rem .3rem}
pre{font-size:.75rem;white-space:pre-wrap;overflow-wrap:anywhere}}"""


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
        parts += [f"- {column}: {meaning}" for column, meaning in _meanings(run, header)] + [""]
    return "\n".join(parts + [f"- {note}" for note in run.notes]) + "\n"


def html_report(run: Run) -> str:
    """The whole run as one page: figures inline, settings, versions, timing."""
    info = run.as_dict()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<title>gmlearn: {html.escape(run.name)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(run.title or run.name)}</h1>",
    ]
    parts += [f"<p>{html.escape(note)}</p>" for note in run.notes]
    for title, header, rows in run.tables:
        head = "".join(f"<th>{html.escape(h)}</th>" for h in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell(c))}</td>" for c in row) + "</tr>"
            for row in rows
        )
        parts.append(
            f"<h2>{html.escape(title)}</h2><div><table><tr>{head}</tr>{body}</table></div>"
        )
        terms = "".join(
            f"<dt>{html.escape(column)}</dt><dd>{html.escape(meaning)}</dd>"
            for column, meaning in _meanings(run, header)
        )
        parts.append(f"<dl>{terms}</dl>" if terms else "")
    for filename, caption, path in run.figures:
        if path is not None:
            data = base64.b64encode(path.read_bytes()).decode()
            parts.append(
                f"<figure><img alt='{html.escape(filename)}' src='data:image/png;base64,{data}'>"
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            )
    if run.code:
        parts.append(f"<h2>To do it yourself</h2><pre>{html.escape(run.code)}</pre>")
    parts.append(_facts(info))
    return "\n".join(parts)


def _meanings(run: Run, header: list[str]) -> list[tuple[str, str]]:
    """(column, meaning) of the columns that are explained."""
    return [(column, run.meanings[column]) for column in header if column in run.meanings]


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
