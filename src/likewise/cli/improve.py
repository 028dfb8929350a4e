"""``likewise improve``: look for a fairer model that is as accurate."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options
from likewise.cli.exits import exit_code
from likewise.cli.metric import in_files, open_encoder
from likewise.cli.options import argument, option


def improve(
    model: Annotated[str, argument("Model file or address, as for audit.", "MODEL")],
    people: Annotated[list[str], argument("Tables of people it was not trained on.", "DATA")],
    label: options.Label = None,
    protected: options.Protected = None,
    may_matter: options.MayMatter = None,
    favourable: options.Favourable = None,
    pool: options.Pool = None,
    label_map: options.LabelMap = None,
    bins: options.Bins = None,
    clusters: options.Clusters = None,
    encoder: options.EncoderFile = None,
    delta: options.Delta = None,
    settings: options.SettingsFile = None,
    assigned: options.Set = None,
    margin: Annotated[
        float, option("Accuracy that may be lost; .02 is two points.", "SHARE")
    ] = 0.02,
    output: Annotated[
        Path, option("Folder for model and results.", "FOLDER", "-o", "--output")
    ] = Path("improved"),
    trust: options.Trust = False,
    quiet: options.Quiet = False,
) -> None:
    """Look for a fairer model that is about as accurate as MODEL.

    Predictions are averaged over comparable people. A strength is chosen on some people of DATA and
    judged on others. Exit codes: 0 a fairer model was found, or MODEL is within tolerance; 1 there
    is evidence and nothing better; 3 the audit of MODEL is inconclusive.

    Example: likewise improve model.skops people.parquet --label income --protected sex
    --may-matter age,education-num,hours-per-week -o improved
    """
    given = locals()
    from likewise.cli.progress import progress_bar
    from likewise.settings.settings_file import settings_and_files
    from likewise.training.search import improve as search

    base, files = settings_and_files(settings)
    with progress_bar(quiet) as progress:
        found = search(
            model,
            people,
            **options.arguments(given),
            pool=list(options.names(pool) or files.get("pool", ())) or None,
            encoder=open_encoder(in_files(encoder, files, "encoder"), None),
            settings=base.with_set(assigned or ()),
            margin=margin,
            folder=output,
            progress=progress,
        )
    print(found.sentence if quiet else found)
    raise typer.Exit(0 if found.better else exit_code(found.found.record))
