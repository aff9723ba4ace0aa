"""Every message of the FAQ is produced by the code beside it."""

import re

import docs_code
import numpy as np
import pytest

import gmlearn as gm

BLOCKS = docs_code.blocks(docs_code.PAGES / "faq.md")
ENTRIES = list(zip(BLOCKS[::2], BLOCKS[1::2]))


def test_code_and_messages_alternate():
    assert len(ENTRIES) >= 20
    assert {(a, b) for (a, _), (b, _) in ENTRIES} == {("python", "text")}


@pytest.mark.parametrize(
    ("code", "message"),
    [(code, message) for (_, code), (_, message) in ENTRIES],
    ids=[message.split(":", 2)[1].strip()[:40] for _, (_, message) in ENTRIES],
)
def test_message(code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, _, text = message.strip().partition(": ")
    with pytest.raises(Exception) as caught:
        docs_code.run(code, {"np": np, "gm": gm, "__name__": "documentation"})
    assert type(caught.value).__name__ == kind
    assert re.fullmatch(
        re.escape(text).replace(re.escape("..."), ".*"), str(caught.value), re.DOTALL
    )
