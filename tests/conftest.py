"""What all tests share: one thread, fixed seeds, and outside material that may be absent."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Before numpy and torch start their pools: workers of pytest-xdist share the cores already.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import hypothesis
import jaxtyping
import numpy as np
import pytest
import torch

SEED = 20210330

ROOT = Path(__file__).resolve().parents[1]

torch.set_num_threads(1)

# The same examples in every run, and no deadline: a busy machine is not a bug.
hypothesis.settings.register_profile("likewise", derandomize=True, deadline=None)
hypothesis.settings.load_profile("likewise")


def pytest_configure(config: pytest.Config) -> None:
    """Turn our own warnings into errors: a test that expects one says so.

    Not in pyproject.toml, where pytest would import the package to find the class before
    jaxtyping can hook into that import.
    """
    config.addinivalue_line("filterwarnings", "error::likewise.errors.LikewiseWarning")
    # Many tests audit networks that were never trained.
    config.addinivalue_line(
        "filterwarnings", "ignore:The model is no better than a constant:UserWarning"
    )
    # The option takes one package only, when its type checker has arguments.
    _, checker = config.getoption("jaxtyping_packages").split(",", 1)
    jaxtyping.install_import_hook("likewise_studies", checker)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    """Give every test the same initial weights: new torch layers draw from the global generator."""
    torch.manual_seed(SEED)


@pytest.fixture(autouse=True)
def _default_dtype() -> Iterator[None]:
    """Fail no other test when one changes torch's default dtype or thread count."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with the same seed in every test."""
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def ended() -> Callable[..., bool]:
    """Return what tells whether a process is gone, or will be soon."""

    def wait(number: int, seconds: int = 20) -> bool:
        for _ in range(seconds * 50 + 1):
            try:
                state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return True
            if state in "ZX":
                return True
            time.sleep(0.02)
        return False

    return wait


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of published results, which lies beside the repository where it is known."""
    folder = ROOT.parent / "shared" / "reference"
    if not folder.is_dir():
        pytest.skip("the published results (shared/reference, beside the repository) are not here")
    return folder


def _split(name: str) -> Any:
    from likewise.errors import InvalidFile
    from likewise_studies import datasets

    try:
        return getattr(datasets, name)()
    except InvalidFile as error:
        pytest.skip(f"the data of {name} are not here: {error}")


@pytest.fixture(scope="session")
def adult() -> Any:
    """Whatever `likewise_studies.datasets.adult` returns; skips where the data cannot be had."""
    return _split("adult")


@pytest.fixture(scope="session")
def compas() -> Any:
    """Whatever `likewise_studies.datasets.compas` returns; skips where the data cannot be had."""
    return _split("compas")
