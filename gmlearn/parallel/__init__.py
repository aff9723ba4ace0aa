"""Where per-sample work runs. Runs functions; knows no model."""

from gmlearn.parallel.threads import Executor, Serial, Threads, make_executor

__all__ = ["Executor", "Serial", "Threads", "make_executor"]
