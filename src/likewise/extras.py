"""Libraries that only some audits need, and that are installed with an extra."""

import importlib
from typing import Any

from likewise.errors import MissingExtra


def need(library: str, extra: str, what: str) -> Any:
    """Import a library for something, or say in one sentence how to install it.

    Parameters
    ----------
    library
        The name to import.
    extra
        The extra of likewise that installs it.
    what
        What needs it: the beginning of the sentence.
    """
    try:
        return importlib.import_module(library)
    except ImportError as error:
        missing = (error.name or library).partition(".")[0]
        refusal = MissingExtra(
            f"{what} needs {missing}, which is not installed: pip install 'likewise[{extra}]'."
        )
        refusal.name = missing  # as every ImportError has it
        raise refusal from None
