"""Which directions a method should be blind to: those it is given, or those it learns."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from likewise.audit_data import AuditData
from likewise.errors import InvalidSettings
from likewise.metrics.learn import sensitive_subspace


def find_directions(given: Any, people: AuditData) -> Float[Tensor, "m d"]:
    """Return directions as rows, with their lengths: as given, or learned from protected traits.

    Learned ones are the coefficients of the regressions behind `likewise.sensitive_subspace`.
    There are none without protected traits.
    """
    d = people.x.shape[1]
    if given is None and not people.protected:
        return torch.zeros(0, d, dtype=torch.float64)
    if given is None:
        given = sensitive_subspace(people, C=1.0, groups=0, placebos=0).directions
    rows = np.asarray(given, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != d:
        raise InvalidSettings(
            f"directions has shape {rows.shape}; it must have one row a direction and {d} "
            "columns, one a feature."
        )
    if not np.isfinite(rows).all():
        raise InvalidSettings("directions has entries that are not finite numbers.")
    return torch.from_numpy(rows)
