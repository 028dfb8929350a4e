"""Skops files: scikit-learn estimators without pickle, with a list of the types inside."""

import hashlib
import io
import math
import zipfile

import numpy as np

from likewise.errors import InvalidFile, MissingExtra, TrustRequired, in_short
from likewise.models.base import Opened

REVIEWED = frozenset(
    {
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.utils._bunch.Bunch",
    }
)
"""Types that skops does not know, and that we read: they hold numbers and estimators only.

Trees are not among them. Their node tables index memory unchecked, so that a forged one can bring
the process down; nearest neighbours keep such tables too.
"""

LARGEST = 1_000_000_000
"""A file that unpacks to more bytes than this, and than a hundred times its size, is refused."""


def read_bytes(content: bytes, source: str, trust: bool) -> Opened:
    """Open the bytes of a skops file, if its types are known or the user trusts it."""
    try:
        from skops import io as skops
    except ImportError:
        raise MissingExtra(
            f"{source!r} needs skops, which is not installed: pip install 'likewise[skops]'."
        ) from None
    try:
        size = sum(part.file_size for part in zipfile.ZipFile(io.BytesIO(content)).infolist())
        if size > max(LARGEST, 100 * len(content)):
            raise InvalidFile(f"it unpacks to {size:.3g} bytes")
        _check_arrays(content)
        unknown = skops.get_untrusted_types(data=content)
        strange = sorted(set(unknown) - REVIEWED)
        if strange and not trust:
            more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            raise TrustRequired(
                f"{source!r} holds types that can do more than hold numbers "
                f"({', '.join(strange[:3])}{more}). If you trust where it is from, say so with "
                "--trust (trust=True)."
            )
        found = skops.loads(content, trusted=unknown)
    except TrustRequired:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise InvalidFile(f"{source!r} is damaged or no skops file ({in_short(error)}).") from None
    return Opened(found, fingerprint=hashlib.sha256(content).hexdigest())


def _check_arrays(content: bytes) -> None:
    """Refuse an array that claims to be larger than what is there, before room is made for it."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for part in archive.infolist():
            if not part.filename.endswith(".npy"):
                continue
            with archive.open(part) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0
                read = read if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            if math.prod(shape) * dtype.itemsize > part.file_size and not dtype.hasobject:
                raise InvalidFile(f"an array of shape {shape} has {part.file_size} bytes")
