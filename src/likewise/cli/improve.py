"""``likewise improve``: look for a fairer model that is as accurate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE


def improve(
    source: Annotated[
        list[Path],
        typer.Argument(
            help="Tables of people (Parquet, CSV); before them, if there is one, the file of a "
            "scikit-learn model to train again (--trust).",
            metavar="[MODEL] TRAIN",
            show_default=False,
        ),
    ],
    label: options.Label = None,
    protected: options.Protected = None,
    may_matter: options.MayMatter = None,
    ignore: options.Ignore = None,
    model: Annotated[
        str, typer.Option(help="Without a MODEL: boosted or network.", rich_help_panel="Method")
    ] = "boosted",
    delta: options.Delta = None,
    margin: Annotated[
        float, typer.Option(help="Points of accuracy that may be lost, set beforehand.")
    ] = 0.02,
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Folder for the model, results and comparison.")
    ] = Path("improved"),
    seed: Annotated[int, typer.Option(help="Seed of the division of people.")] = 0,
    trust: options.Trust = False,
    quiet: options.Quiet = False,
) -> None:
    """Try remedies over their strength, and write the fairest model that is as accurate.

    People are divided: a half to train on, a quarter to choose on, a quarter to judge on. A run
    that stopped goes on where it was. Exit codes: 0 a better model was found, 1 nothing is better.

    Example: likewise improve train.parquet --label income --protected sex --may-matter
    age,education-num,hours-per-week -o improved
    """
    from likewise.cli.progress import progress_bar
    from likewise.data.files import open_rows
    from likewise.engine.paired_audits import Margins
    from likewise.errors import InvalidSettings
    from likewise.improving import improve as look_for_a_fairer_model
    from likewise.models import open_model

    tables = [path for path in source if path.suffix in (".parquet", ".csv") or path.is_dir()]
    models = [path for path in source if path not in tables]
    if label is None or not may_matter:
        raise InvalidSettings("Name the label (--label) and the columns that may matter.")
    if len(models) > 1 or not tables:
        raise InvalidSettings("Name at most one model, and at least one table of people.")
    base: Any = model
    if models:
        base = open_model(str(models[0]), trust=trust).content
        if not hasattr(base, "get_params"):
            raise InvalidSettings(
                f"{str(models[0])!r} is no scikit-learn estimator, which alone can be trained "
                "again. Leave it out, and choose --model boosted or network."
            )
    rows = open_rows([str(path) for path in tables])
    with progress_bar(quiet) as progress:
        found = look_for_a_fairer_model(
            rows.table(list(rows.schema.names)),
            label=label,
            protected=options.names(protected) or (),
            may_matter=options.names(may_matter) or (),
            ignore=options.names(ignore) or (),
            model=base,
            delta=1.25 if delta is None else delta,
            margins=Margins(margin),
            folder=out,
            seed=seed,
            progress=progress,
        )
    print(found)
    raise typer.Exit(NO_EVIDENCE if found.better else EVIDENCE)
