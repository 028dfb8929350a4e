"""``likewise init``: write a settings file that lists every column and the choices to make."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from likewise.cli import options
from likewise.cli.options import argument, option
from likewise.errors import InvalidFile, InvalidSettings, printable

EXAMPLES = 4  # values of a column that are shown
MAX_ROWS = 10_000  # rows that are looked at


def init(
    model: Annotated[str, argument("Model file or endpoint.", "MODEL")],
    data: Annotated[list[Path], argument("Parquet or CSV files.", "DATA")],
    output: Annotated[Path, option("Where to write it.", "FILE", "-o", "--output")] = Path(
        "likewise.toml"
    ),
    protected: options.Protected = None,
    assigned: options.Set = None,
    trust: options.Trust = False,
) -> None:
    """Write likewise.toml: every column with what is known of it, and the choices to make.

    Nothing is guessed: label, protected attributes and columns that may matter are yours to fill
    in. After that, `likewise audit` needs no options.

    Example: likewise init model.onnx test.csv --protected sex,race
    """
    from likewise.data.columns import require
    from likewise.data.rows import open_rows
    from likewise.files import check_outputs, write_whole
    from likewise.models import as_model, open_model
    from likewise.settings import Settings
    from likewise.settings.settings_file import write_settings

    chosen = Settings().with_set(assigned or ())
    if chosen != Settings().changed(columns__csv=chosen.columns.csv):
        raise InvalidSettings(
            f"likewise init takes settings of CSV files (columns.csv) alone. Write others into "
            f"{str(output)!r} when it is there."
        )
    if output.exists():
        raise InvalidFile(f"{str(output)!r} exists already. Remove it, or name another (-o).")
    check_outputs([output], [model, *data])
    paths = [str(path) for path in data]
    rows = open_rows(paths, csv=chosen.columns.csv).read(0, MAX_ROWS)
    named = options.names(protected)
    for name in named:
        require(name, rows.column_names, "protected")
    opened = open_model(model, trust=trust)
    card = as_model(opened).card
    read = {*card.features, *map(str, getattr(opened.content, "feature_names_in_", ()))}
    given = {
        "kind": card.kind,
        "model": json.dumps(model, ensure_ascii=False),
        "data": json.dumps([str(path) for path in data]),
        "protected": f"protected = {json.dumps(list(named))}" if named else PROTECTED,
        "csv": "".join(f"\n{line}" for line in write_settings(chosen).splitlines()[2:]),
        "columns": "\n".join(_columns(rows, read & {*rows.column_names}, named)),
    }
    write_whole(output, TEMPLATE.format(**given).encode())
    wanted = "label and may_matter" if named else "label, protected and may_matter"
    print(f"Wrote {output}: fill in {wanted}, then run likewise audit.")


PROTECTED = "# protected = []          # sex, race, age group, …"
TEMPLATE = """\
# Choices of an audit. Fix them before you look at results: likewise audit
# Model: {kind}

[files]
model = {model}
data = {data}
# pool = ["reference.csv"]   # other people than the model was trained on

[columns]
# label = ""              # the true outcome; leave it out if there is none
{protected}
# may_matter = []         # legitimate factors: people alike in them are compared
# weight = ""             # sampling weights
# cluster = ""            # what groups dependent rows (a household, say)
# bins = {{ age = [40] }}   # where to cut a continuous attribute{csv}

[decide]
# favourable = ""         # the decision that people want

# Columns of the data:
{columns}
"""


def _columns(rows: Any, read: set[str], protected: tuple[str, ...]) -> Iterator[str]:
    """Yield one line of comment a column: type, examples, use, association with attributes.

    ``read`` are those that the model reads, as far as it says so.
    """
    import pyarrow.compute as pc

    from likewise.report.escaping import on_one_line

    wide = max(len(name) for name in rows.column_names)
    for name in rows.column_names:
        values = pc.unique(rows[name].combine_chunks()).to_pylist()
        shown = [f"{v:.4g}" if isinstance(v, float) else str(v)[:20] for v in values[:EXAMPLES]]
        shown += [f"… ({len(values):,} values)"] if len(values) > EXAMPLES else []
        facts = [str(rows[name].type).removeprefix("large_"), ", ".join(shown)]
        facts += ["read by the model"] if name in read else [] if read else ["reading unknown"]
        facts += [
            f"{attribute}: association {_association(rows, name, attribute):.2f}"
            for attribute in protected
            if attribute != name
        ]
        # On one line: neither a name nor a value must end the comment.
        said = printable(on_one_line("; ".join(facts)))
        yield f"#   {printable(on_one_line(name)):{wide}}  {said}"


def _association(rows: Any, name: str, attribute: str) -> float:
    """Return Cramér's V (Bergsma's, 0 in the mean by chance) of a column with an attribute."""
    from scipy.stats.contingency import chi2_contingency, crosstab

    from likewise.data.columns import without_dictionary
    from likewise.data.notes import binned

    counts = crosstab(*(binned(without_dictionary(rows[c])) for c in (name, attribute))).count
    n, sizes = counts.sum() - 1, [size - 1 for size in counts.shape]
    if n < 1 or not all(sizes):
        return 0.0
    excess = chi2_contingency(counts, correction=False).statistic / (n + 1)
    excess -= sizes[0] * sizes[1] / n
    return math.sqrt(max(0.0, excess) / max(min(size - size**2 / n for size in sizes), 1e-9))
