"""The gallery, made by running examples/plot_*.py: its docstring, what it prints, its picture, its
code.

    python docs/build_gallery.py [NAME ...]       # all of them, or plot_NAME.py only

Each script runs in a process and a folder of its own, without a window system (MPLBACKEND=Agg). Its
picture and what it printed are kept in docs/pages/gallery; mkdocs makes the page from them at every
build (this file is one of its hooks). The tests run every script with ``--quick``.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
GALLERY = DOCS / "pages" / "gallery"
SECONDS = 300
LEAD = """# Gallery

Plain scripts in `examples/`. Try one with `python examples/plot_denoise.py`; `--quick` makes it
smaller. Each page shows the picture, what the script printed, and its code.
"""
#: runs a script, then saves the last figure that it left open
RUNNER = """
import runpy, sys
import matplotlib.pyplot as plt
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
if plt.get_fignums():
    plt.figure(plt.get_fignums()[-1]).savefig("open-figure.png", dpi=80, bbox_inches="tight")
"""


def scripts() -> list[Path]:
    return sorted(EXAMPLES.glob("plot_*.py"))


def title_and_text(script: Path) -> tuple[str, str]:
    """The first line of a script's docstring, and the rest of it."""
    lines = (
        ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or script.stem
    ).splitlines()
    rest = [line for line in lines[1:] if not (line and set(line) <= {"="})]
    return lines[0].rstrip("."), "\n".join(rest).strip()


def run(script: Path, *arguments: str) -> None:
    """Run one script; keep its picture and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", RUNNER, script, *arguments]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "MPLBACKEND": "Agg"},
        )
        if done.returncode:
            raise SystemExit(f"{script.name} failed:\n{done.stderr}")
        pictures = sorted(Path(folder).rglob("*.png"), key=lambda p: p.name != "open-figure.png")
        if not pictures:
            raise SystemExit(f"{script.name} made no picture")
        GALLERY.mkdir(parents=True, exist_ok=True)
        shrink(pictures[0], GALLERY / f"{script.stem}.png")
    (GALLERY / f"{script.stem}.txt").write_text(done.stdout, encoding="utf-8")


def shrink(source: Path, target: Path, width: int = 1000) -> None:
    """A picture of at most `width` pixels and 256 colours: small, and sharp enough for a page."""
    from PIL import Image

    image = Image.open(source).convert("RGB")
    if image.width > width:
        image = image.resize(
            (width, round(image.height * width / image.width)), Image.Resampling.LANCZOS
        )
    image.quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def index() -> str:
    """The overview: a thumbnail and a title for each example."""
    cards = []
    for script in scripts():
        title, _ = title_and_text(script)
        cards.append(f"[![]({script.stem}.png){{ .thumbnail }} {title}]({script.stem}.md)")
    inner = "\n\n".join(cards)
    return f'{LEAD}\n<div class="gallery" markdown>\n\n{inner}\n\n</div>\n'


def page(script: Path) -> str:
    """One example: what it is about, its picture, what it printed, its code."""
    title, text = title_and_text(script)
    parts = [f"# {title}\n\n{text}\n"]
    picture, printed = GALLERY / f"{script.stem}.png", GALLERY / f"{script.stem}.txt"
    if picture.exists():
        parts.append(f"![{title}]({picture.name})\n")
    if printed.exists() and printed.stat().st_size:
        parts.append(f"```text\n{printed.read_text(encoding='utf-8').rstrip()}\n```\n")
    code = script.read_text(encoding="utf-8").rstrip()
    parts.append(f"## examples/{script.name}\n\n```py\n{code}\n```\n")
    return "\n".join(parts)


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "gallery/index.md", content=index()))
    for script in scripts():
        files.append(File.generated(config, f"gallery/{script.stem}.md", content=page(script)))
    return files


def main() -> None:
    names = sys.argv[1:]
    for script in scripts():
        if not names or script.stem.removeprefix("plot_") in names:
            print(f"{script.name} ...", flush=True)
            run(script)


if __name__ == "__main__":
    main()
