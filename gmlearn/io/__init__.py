"""The file room: models in and out by extension.

Everything read is checked as if it were hostile.
"""

from gmlearn.io.api import read, write
from gmlearn.io.base import FileFormat, FormatError
from gmlearn.io.cfn import Cfn
from gmlearn.io.npz import Npz, read_weights
from gmlearn.io.samples import read_sample, write_sample
from gmlearn.io.uai import Uai, read_evidence
from gmlearn.io.wcsp import Wcsp

__all__ = [
    "Cfn",
    "FileFormat",
    "FormatError",
    "Npz",
    "Uai",
    "Wcsp",
    "read",
    "read_evidence",
    "read_sample",
    "read_weights",
    "write",
    "write_sample",
]
