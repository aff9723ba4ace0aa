"""The file room: models in and out by extension.

Everything read is checked as if it were hostile.
"""

from gmlearn.io.api import read, write
from gmlearn.io.base import FileFormat, FormatError
from gmlearn.io.build import ModelBuilder
from gmlearn.io.npz import Npz, read_weights
from gmlearn.io.samples import read_sample, write_sample
from gmlearn.io.text import Tokens, compressed, read_text
from gmlearn.io.uai import Uai, read_evidence

__all__ = [
    "FileFormat",
    "FormatError",
    "ModelBuilder",
    "Npz",
    "Tokens",
    "Uai",
    "compressed",
    "read",
    "read_evidence",
    "read_sample",
    "read_text",
    "read_weights",
    "write",
    "write_sample",
]
