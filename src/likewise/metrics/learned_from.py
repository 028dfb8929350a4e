"""Recognises the people a metric was learned from, in any order and with some missing."""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Int, UInt32, UInt64

from likewise.audit_data import AuditData, person_columns
from likewise.fingerprints import Sketch, row_hashes


@final
@dataclasses.dataclass(frozen=True, eq=False)
class LearnedFrom:
    """The people of a sample, as far as is needed to meet them again.

    Parameters
    ----------
    sketch
        Tells how many of other people are among them.
    keys
        A number for each person: half of a hash of all that is known of them.
    """

    sketch: Sketch
    keys: UInt32[np.ndarray, " n"]

    @classmethod
    def of(cls, people: AuditData) -> "LearnedFrom":
        """Remember people."""
        hashes = hashes_of(people)
        return cls(Sketch.of(hashes), _half(hashes))

    def groups_of(
        self, hashes: UInt64[np.ndarray, " m"], groups: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " m"]:
        """Return the group that each of some people was in.

        Strangers are dealt to groups by their hash, so that a group left out leaves out its share
        of them too: then one jackknife covers both samples, however much they overlap.
        """
        order = np.argsort(self.keys, kind="stable")
        ranked, wanted = self.keys[order], _half(hashes)
        place = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
        dealt = (hashes >> np.uint64(40)) % np.uint64(int(groups.max()) + 1)
        return np.where(ranked[place] == wanted, groups[order][place], dealt.astype(groups.dtype))


def hashes_of(people: AuditData) -> UInt64[np.ndarray, " n"]:
    """Return a number for each person, the same wherever the row stands."""
    return row_hashes(person_columns(people))


def _half(hashes: UInt64[np.ndarray, " m"]) -> UInt32[np.ndarray, " m"]:
    return (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
