"""Where a result comes from: the columns that carry it, and subgroups that nobody named."""

import math

from likewise.json_text import Count, Number, Share, Text
from likewise.record_parts import Part


class ColumnShareRecord(Part):
    """How much of what was found one column (or all levels of one category) carries.

    ``alone`` and ``without`` are the audit values if it alone comes from the other person, and if
    all columns but this one do.
    """

    column: Text
    share: Number
    interval: tuple[Number, Number] = (math.nan, math.nan)
    alone: Number = math.nan
    without: Number = math.nan


class SubgroupRecord(Part):
    """People that nobody named beforehand: found on one half, judged on the other.

    Bounds and p-values hold for all subgroups of a trait together.
    """

    trait: Text = ""
    words: Text
    n: Count
    estimate: Number
    lower_bound: Number
    upper_bound: Number
    p_adjusted: Share
    found: bool
