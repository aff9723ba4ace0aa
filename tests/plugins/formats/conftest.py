"""What the tests of file formats share: a way to write a file."""

from __future__ import annotations

import pathlib

import pytest


@pytest.fixture
def put(tmp_path):
    """put("x.uai", text or bytes) -> path"""

    def write(name: str, content: str | bytes) -> pathlib.Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
