"""Which features are a column of the original table."""

from collections.abc import Sequence


def columns_of(features: Sequence[str], name: str, levels: Sequence[str] = ()) -> list[int]:
    """Places of the feature called ``name``, or of the one-hot features made from it.

    Known are the names our encoder gives (``sex=Male``) and those of scikit-learn's pipelines
    (``cat__sex_Male``, ``num__age``).

    Parameters
    ----------
    levels
        Values of the column, which tell ``sex_Male`` from ``sex_offences``.
    """
    spelled = {name, *(f"{name}_{level}" for level in levels)}
    whole = [j for j, feature in enumerate(features) if feature == name]
    return whole or [
        j
        for j, feature in enumerate(features)
        if feature.startswith(f"{name}=") or feature.rpartition("__")[2] in spelled
    ]
