"""Run as a process: the arrays of an OpenGM model, from an HDF5 file to standard output.

python -m gmlearn_formats._hdf5_child FILE
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys

import numpy as np

#: bytes of arrays that a small file may hold, and how many for each byte of a larger one
SAFE_BYTES, MAX_RATIO = 2**24, 100
#: memory of the process
MAX_MEMORY = 2**33


def main(path: str) -> None:
    import h5py

    if importlib.util.find_spec("resource"):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))

    arrays: dict[str, np.ndarray] = {}
    left = SAFE_BYTES + MAX_RATIO * os.path.getsize(path)
    with h5py.File(path, "r") as file:
        groups = [g for g in file.values() if isinstance(g, h5py.Group) and "header" in g]
        if not groups:
            sys.exit("no group with a header")
        names = ["header", "numbers-of-states", "factors"]
        for name, item in groups[0].items():
            if isinstance(item, h5py.Group) and name.startswith("function-id-"):
                names += [f"{name}/indices", f"{name}/values"]
        for name in names:
            dataset = groups[0].get(name)
            if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "iuf":
                continue
            left -= dataset.size * dataset.dtype.itemsize
            if left < 0:
                sys.exit("more data than a file of this size may hold")
            arrays[name] = np.asarray(dataset[()])
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    sys.stdout.buffer.write(stream.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
