"""Where per-sample work runs: this process, threads, processes or a Dask cluster. Runs methods;
knows no model.
"""

from gmlearn.parallel.base import Executor
from gmlearn.parallel.local import Serial, Threads
from gmlearn.parallel.make import make_executor

__all__ = ["Executor", "Serial", "Threads", "make_executor"]
