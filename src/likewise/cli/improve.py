"""``likewise improve``: look for a fairer model that is as accurate."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import EVIDENCE, NO_EVIDENCE


def improve(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Tables of people (Parquet, CSV); before them, if there is one, a model: one of "
            "scikit-learn's kind is trained again, the answers of any other are averaged.",
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
    balanced: Annotated[
        bool | None,
        typer.Option(
            help="Whether all classes count alike in training; by default they do without a MODEL.",
            show_default=False,
        ),
    ] = None,
    delta: options.Delta = None,
    margin: Annotated[
        float, typer.Option(help="Points of accuracy that may be lost, set beforehand.")
    ] = 0.02,
    out: Annotated[
        Path,
        typer.Option(
            "-o", "--output", "--out", help="Folder for the model, results and comparison."
        ),
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
    from likewise.engine.paired_audits import Margins
    from likewise.errors import InvalidSettings
    from likewise.improving import improve as look_for_a_fairer_model
    from likewise.models import is_model_name

    needed = {
        "the label (--label)": label,
        "the protected traits (--protected)": protected,
        "the columns that may matter (--may-matter)": may_matter,
    }
    absent = [what for what, given in needed.items() if not given]
    if absent or label is None:
        raise InvalidSettings(f"Name {' and '.join(absent)}.")
    given = is_model_name(source[0])
    tables = source[1:] if given else source
    if not tables:
        raise InvalidSettings(f"Name a table of people after the model {source[0]!r}.")
    with progress_bar(quiet) as progress:
        found = look_for_a_fairer_model(
            tables,
            label=label,
            protected=options.names(protected) or (),
            may_matter=options.names(may_matter) or (),
            ignore=options.names(ignore) or (),
            model=source[0] if given else model,
            balanced=balanced,
            delta=1.25 if delta is None else delta,
            margins=Margins(margin),
            folder=out,
            seed=seed,
            trust=trust,
            progress=progress,
        )
    print(found)
    raise typer.Exit(NO_EVIDENCE if found.better else EVIDENCE)
