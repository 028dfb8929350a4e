"""Short commands: report, compare, plan and reproduce."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from likewise.cli import options
from likewise.cli.exits import exit_code
from likewise.cli.options import Number, argument, option
from likewise.cli.progress import progress_bar
from likewise.errors import InvalidSettings, MissingExtra


def report(
    result: Annotated[Path, argument("Result saved by an audit (JSON).", "RESULT")],
    output: options.Rendered = None,
    delta: Annotated[
        Number, option("Read the verdict at another limit on the ratio.", "NUMBER")
    ] = None,
    redact: options.Redact = False,
    verbose: options.Verbose = False,
) -> None:
    """Render a saved RESULT again, without model or data; --delta asks at another limit.

    Without options, the summary is printed. With --delta the exit code is that of its verdict. A
    perturbation audit may be inconclusive at another limit where an audit made at it decides.

    Example: likewise report result.json -o report.html
    """
    from likewise.files import check_outputs
    from likewise.record import Record
    from likewise.report.export import write_outputs
    from likewise.report.redact import redact as redacted
    from likewise.report.terminal import show

    outputs = options.outputs(output, rows=False, redact=redact)
    check_outputs(outputs.values(), [result])
    record = Record.read(result)
    if delta is not None:
        from likewise.redecide import at_limit

        record = at_limit(record, delta)
    record = redacted(record) if redact else record
    write_outputs(record, outputs)
    if not outputs or delta is not None:
        show(record, verbose=verbose)
    if delta is not None:
        raise typer.Exit(exit_code(record))


def compare(
    results: Annotated[list[Path], argument("Results saved by audits (JSON).", "RESULTS")],
    output: Annotated[
        Path | None, option("Write a web page here.", "FILE", "-o", "--output")
    ] = None,
    margin: Annotated[float, option("Factor that a difference must exceed.", "NUMBER")] = 1.1,
) -> None:
    """Compare models audited on the same people; the first with each of the others.

    Example: likewise compare old.json new.json -o comparison.html
    """
    from likewise._compare import compare as compare_audits
    from likewise.files import check_outputs, write_whole
    from likewise.report.comparison import comparison_page, comparison_text
    from likewise.report.terminal import terminal_width

    check_outputs([output], results)
    stems = [path.stem for path in results]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in results]
    if len(set(names)) < len(names):
        raise InvalidSettings("The same result is named twice.")
    comparison = compare_audits(dict(zip(names, results, strict=True)), margin=margin)
    print(comparison_text(comparison, terminal_width()))
    if output is not None:
        write_whole(output, comparison_page(comparison).encode("utf-8", errors="replace"))


def plan(
    rate: Annotated[Number, option("Rate of the rarer outcome, as 0.2.", "SHARE")] = None,
    ratio: Annotated[Number, option("Ratio that matched pairs should find.", "NUMBER")] = None,
    comparisons: Annotated[int, option("Comparisons that share the error rate.", "COUNT")] = 2,
    pairs: Annotated[float, option("Pairs of the reference sample a person.", "NUMBER")] = 1.0,
    effect: Annotated[Number, option("Ratio that the flow should find.", "NUMBER")] = None,
    sd: Annotated[Number, option("Standard deviation of a person's loss ratio.", "NUMBER")] = None,
    delta: options.Delta = None,
    power: Annotated[float, option("How often it should be found.", "SHARE")] = 0.8,
) -> None:
    """Say how many people, and how large a reference sample, an audit needs.

    For matched pairs give --rate and --ratio; for the gradient flow --effect and --sd.

    Example: likewise plan --rate 0.2 --ratio 1.5
    """
    from likewise._plan import plan as make_plan

    asked: dict[str, Any] = {"rate": rate, "ratio": ratio, "effect": effect, "sd": sd}
    asked |= {"comparisons": comparisons, "pairs_per_person": pairs}
    print(make_plan(**asked, delta=1.25 if delta is None else delta, power=power))


def reproduce(
    study: Annotated[str, argument("simulation, adult, compas, stopping-time.", "STUDY")],
    splits: Annotated[
        int | None, option("Splits of the data (default: the paper's).", "COUNT")
    ] = None,
    out: Annotated[Path | None, option("Results (default: reproduction/STUDY).", "FOLDER")] = None,
    quiet: options.Quiet = False,
) -> None:
    """Run a STUDY of the paper again, and show its numbers beside ours.

    Writes results.json, figures (PNG and SVG) and page.md. A run that was interrupted
    continues where it stopped when the same command is given again.

    Example: likewise reproduce adult --splits 10 --out adult
    """
    from importlib.metadata import entry_points

    install = "Install them with: pip install 'likewise[studies]'."
    # By its entry point: the library itself does not depend on the studies.
    entry = next(iter(entry_points(group="likewise.studies", name="paper")), None)
    if entry is None:
        raise MissingExtra(f"The paper's studies are not installed here. {install}")
    try:
        run = entry.load()
    except ImportError as error:
        raise MissingExtra(f"The paper's studies need {error.name}. {install}") from None
    folder = out or Path("reproduction") / study
    with progress_bar(quiet) as progress:
        text = run(study, folder, splits=splits, workers=os.cpu_count() or 1, progress=progress)
    print(text)
