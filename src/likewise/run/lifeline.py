"""A process that ends with the one that has started it, however that ends."""

import fcntl
import os


def end_with(descriptor: int) -> None:
    """Let the kernel end this process when the other end of a pipe closes, whatever it does."""
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(descriptor, 1)
    except BlockingIOError:
        return
    os._exit(2)  # it had closed before
