import time
from pathlib import Path

import pytest


def running(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.fixture
def ended():
    """Return what tells whether a process is gone, or will be soon."""

    def wait(number, seconds=20):
        for _ in range(seconds * 50):
            if not running(number):
                return True
            time.sleep(0.02)
        return False

    return wait
