"""``likewise pairs``: find pairs of comparable people once, for any model."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import say
from likewise.errors import InvalidSettings


def pairing(
    pool: options.Table,
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write the pairs (Parquet).")],
    protected: options.Protected = None,
    may_matter: options.MayMatter = None,
    free: options.Free = None,
    label: options.Label = None,
    weight: options.Weight = None,
    cluster: options.Cluster = None,
    ignore: options.Ignore = None,
    csv_separator: options.CsvSeparator = None,
    csv_decimal: options.CsvDecimal = None,
    caliper: Annotated[
        float, typer.Option(help="Largest distance within a pair, in standard deviations.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed of all ties.")] = 0,
) -> None:
    """Pair people of DATA across a protected trait, alike in the columns that may matter.

    No model is needed. The file holds row numbers, and nobody's values; with several traits there
    is one file for each, named after it. An audit takes it together with the pool, DATA, whatever
    its label and whatever it ignores.

    Example: likewise pairs train.parquet --label income --protected sex
    --may-matter age,education-num -o pairs.parquet
    """
    options.csv_written(csv_separator, csv_decimal)
    from likewise.cli.inputs import check_writable
    from likewise.data.roles import Roles
    from likewise.data.rows import open_rows
    from likewise.engine.pool import plain
    from likewise.maps.counterparts import Counterparts

    traits = options.names(protected) or ()
    if not traits:
        raise InvalidSettings("Pairs are of two groups of a trait: name it (--protected).")
    if out.suffix.lower() not in (".parquet", ".pq"):
        raise InvalidSettings(f"Pairs are written as Parquet: name a file {out.stem}.parquet (-o).")
    files = {trait: out if len(traits) == 1 else _named(out, trait) for trait in traits}
    check_writable(*files.values())
    rows = open_rows([str(path) for path in pool])
    roles = Roles(label, traits, weight, cluster, options.names(ignore) or ())
    roles.check(rows.schema.names)
    columns = roles.original(rows.schema.names)
    table = plain(rows.table([*columns, *([cluster] if cluster is not None else [])]))
    for trait, path in files.items():
        chosen = options.names(free)
        if chosen is not None:
            chosen = tuple(dict.fromkeys([*chosen, *(t for t in traits if t != trait)]))
        question = Counterparts(options.names(may_matter), chosen, caliper=caliper, seed=seed)
        found = question.pairs(table, trait, cluster)
        found.save(path)
        sizes = ", ".join(
            f"{group} {size}" for group, size in zip(found.groups, found.group_sizes, strict=True)
        )
        say(f"{len(found)} pairs across {trait} ({sizes}) are in {str(path)!r}.")


def _named(path: Path, trait: str) -> Path:
    """Return the name of the file for one trait of several."""
    safe = "".join(mark if mark.isalnum() or mark in "-_" else "_" for mark in trait)
    return path.with_name(f"{path.stem}-{safe}{path.suffix}")
