"""The site: links lead somewhere, nothing is fetched from elsewhere, the build is clean."""

import re
import subprocess
import sys

import docs_code
import pytest

import gmlearn as gm

PROSE = [
    docs_code.ROOT / name
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff")
]
PAGES = sorted(docs_code.PAGES.rglob("*.md"))
GENERATED = (
    "reference/core.md",
    "reference/plugins.md",
    "reference/modules.md",
    "gallery/index.md",
    "performance.md",
)


@pytest.mark.parametrize("path", [docs_code.ROOT / "README.md", *PAGES], ids=lambda p: p.stem)
def test_relative_links_lead_somewhere(path):
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
        if "://" not in target:
            there = (path.parent / target).resolve()
            made = (
                there.is_relative_to(docs_code.PAGES)
                and str(there.relative_to(docs_code.PAGES)) in GENERATED
            )
            assert there.exists() or made, f"{path.name} links to {target}"


def test_every_page_is_in_the_navigation():
    navigation = (docs_code.ROOT / "docs" / "mkdocs.yml").read_text("utf-8")
    for page in [*(str(p.relative_to(docs_code.PAGES)) for p in PAGES), *GENERATED]:
        assert page in navigation


def test_pictures_are_small():
    pictures = list(docs_code.PAGES.rglob("*.png"))
    assert pictures
    for picture in pictures:
        assert picture.stat().st_size < 150_000, picture


@pytest.mark.parametrize(
    "path",
    [*PROSE, *PAGES, *sorted((docs_code.ROOT / "docs").rglob("*.txt"))],
    ids=lambda p: p.stem,
)
def test_nothing_names_a_machine(path):
    text = path.read_text("utf-8")
    assert not re.search(r"/home/|/tmp/|/root/|site-packages", text)
    assert str(docs_code.ROOT) not in text


def test_the_reference_has_every_public_name():
    sys.path.insert(0, str(docs_code.ROOT / "docs"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    text = reference.page("reference/core.md")
    for name in set(gm.__all__) - {"__version__", "plot", "testing"}:
        assert f"gm.{name}\n" in text
    assert "gm.testing.check\n" in reference.page("reference/modules.md")


def test_citation_has_the_five_papers():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((docs_code.ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == gm.__version__
    assert [r["year"] for r in citation["references"]] == [2011, 2014, 2016, 2010, 1993]
    assert all(r["title"] and r["authors"] for r in citation["references"])


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    settings = [
        "--strict",
        "--quiet",
        "-f",
        docs_code.ROOT / "docs" / "mkdocs.yml",
        "-d",
        tmp_path / "site",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *settings], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 25
    foreign = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=\"?(https?://[^\s\">]+)")
    assert not [found for p in pages for found in foreign.findall(p.read_text("utf-8"))]
