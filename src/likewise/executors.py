"""Where blocks of people are measured: inline, in threads, in processes, or on Ray."""

from likewise.run.executors import Executor, Inline, Threads
from likewise.run.journal import Folder, Memory
from likewise.run.process_pool import Processes
from likewise.run.ray_pool import Ray

__all__ = ["Executor", "Folder", "Inline", "Memory", "Processes", "Ray", "Threads"]
