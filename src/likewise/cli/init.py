"""``likewise init``: write a settings file that lists every column and the choices to make."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.errors import InvalidFile

EXAMPLES = 4
"""Values of a column that are shown."""

MOST = 10_000
"""Rows that are looked at."""


def init(
    model: Annotated[str, typer.Argument(help="Model file or endpoint.", metavar="MODEL")],
    data: Annotated[list[Path], typer.Argument(help="Parquet or CSV files.", metavar="DATA")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to write it.", metavar="FILE")
    ] = Path("likewise.toml"),
    protected: options.Protected = None,
    pool: options.Pool = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    trust: options.Trust = False,
) -> None:
    """Write likewise.toml: every column with what is known of it, and the choices to make.

    Nothing is guessed: label, protected attributes and columns that may matter are yours to fill
    in. After that, `likewise audit` needs no options.

    Example: likewise init model.onnx test.csv --protected sex,race
    """
    from likewise.data.rows import open_rows
    from likewise.files import check_outputs, write_whole

    if output.exists() and not force:
        raise InvalidFile(f"{str(output)!r} exists already. Pass --force to replace it.")
    check_outputs([output], [model, *data])
    table = open_rows([str(path) for path in data])
    rows = table.table(list(table.schema.names)).slice(0, MOST)
    named = options.names(protected) or ()
    for name in named:
        if name not in rows.column_names:
            raise InvalidFile(
                f"There is no column {name!r}; there are {', '.join(rows.column_names)}."
            )
    read, kind = _read_by(model, rows, trust=trust)
    pools = list(options.names(pool) or ())
    lines = [*_head(model, kind, data, pools), *_choices(named), "", *_columns(rows, read, named)]
    write_whole(output, ("\n".join(lines) + "\n").encode())
    print(f"Wrote {output}: fill in label, protected and may_matter, then run likewise audit.")


def _head(model: str, kind: str, data: list[Path], pool: list[str]) -> Iterator[str]:
    import json

    yield "# Choices of an audit. Fix them before you look at results: likewise audit"
    yield f"# Model: {kind}"
    yield ""
    yield "[files]"
    yield f"model = {json.dumps(model)}"
    yield f"data = {json.dumps([str(path) for path in data])}"
    if pool:
        yield f"pool = {json.dumps(pool)}"
    else:
        yield '# pool = ["reference.csv"]   # other people than the model was trained on'
    yield ""


def _choices(protected: tuple[str, ...]) -> Iterator[str]:
    import json

    yield "[columns]"
    yield '# label = ""              # the true outcome; leave it out if there is none'
    if protected:
        yield f"protected = {json.dumps(list(protected))}"
    else:
        yield "# protected = []          # sex, race, age group, …"
    yield "# may_matter = []         # legitimate factors: people alike in them are compared"
    yield '# weight = ""             # sampling weights'
    yield '# cluster = ""            # what groups dependent rows (a household, say)'
    yield "# bins = { age = [40] }   # where to cut a continuous attribute"
    yield ""
    yield "[decide]"
    yield '# favourable = ""         # the decision that people want'


def _read_by(model: str, rows: Any, *, trust: bool) -> tuple[tuple[str, ...], str]:
    """Return the columns that the model reads, as far as it says so, and what it is."""
    from likewise.models import as_model, open_model

    given: Any = open_model(model, trust=trust)
    opened = as_model(given)
    reading = getattr(opened.front, "reading", None)
    fitted: Any = getattr(reading, "columns", None) or getattr(
        getattr(given, "content", given), "feature_names_in_", ()
    )
    named = {*(opened.card.features or ()), *map(str, fitted)}
    return tuple(name for name in rows.column_names if name in named), opened.card.kind


def _columns(rows: Any, read: tuple[str, ...], protected: tuple[str, ...]) -> Iterator[str]:
    """Yield one line of comment a column: type, examples, use, association with attributes."""
    import pyarrow.compute as pc

    yield "# Columns of the data:"
    wide = max(len(name) for name in rows.column_names)
    for name in rows.column_names:
        column = rows[name]
        values = pc.unique(column.combine_chunks()).to_pylist()
        shown = ", ".join(_short(value) for value in values[:EXAMPLES])
        more = f", … ({len(values):,} values)" if len(values) > EXAMPLES else ""
        use = "read by the model" if name in read else "" if read else "reading unknown"
        found = [
            f"{attribute}: association {_association(rows, name, attribute):.2f}"
            for attribute in protected
            if attribute != name
        ]
        facts = "; ".join(
            part for part in (str(column.type), f"{shown}{more}", use, *found) if part
        )
        yield f"#   {name:{wide}}  {facts}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:20]


def _association(rows: Any, name: str, attribute: str) -> float:
    """Return Cramér's V of a column, numbers cut into tenths, with an attribute."""
    import numpy as np
    from scipy.stats.contingency import association, crosstab

    codes = []
    for one in (name, attribute):
        values = np.array([str(v) for v in rows[one].to_pylist()])
        numeric = rows[one].type
        if str(numeric).startswith(("int", "uint", "float", "double")):
            numbers = rows[one].cast("float64").to_numpy(zero_copy_only=False)
            if len(np.unique(numbers)) > 10:
                cuts = np.nanquantile(numbers, np.linspace(0, 1, 11)[1:-1])
                codes.append(np.digitize(numbers, np.unique(cuts)))
                continue
        codes.append(np.unique(values, return_inverse=True)[1])
    counts = crosstab(*codes).count
    return float(association(counts, method="cramer")) if min(counts.shape) > 1 else 0.0
