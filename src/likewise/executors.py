"""Where blocks of people are measured: inline, in threads, in processes, or on Ray."""

from likewise.run.executors import Executor, Inline, Processes, Ray, Threads
from likewise.run.journal import Folder, Memory

__all__ = ["Executor", "Folder", "Inline", "Memory", "Processes", "Ray", "Threads"]
