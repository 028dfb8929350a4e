"""``likewise plan``: how many people an audit needs."""

from typing import Annotated

import typer

from likewise.cli import options


def plan(
    rate: Annotated[
        float | None, typer.Option(help="Rate of the rarer outcome, as 0.2.", metavar="SHARE")
    ] = None,
    ratio: Annotated[
        float | None, typer.Option(help="Ratio that matched pairs should find.", metavar="NUMBER")
    ] = None,
    comparisons: Annotated[
        int, typer.Option(help="Comparisons that share the error rate.", metavar="COUNT")
    ] = 2,
    pairs: Annotated[
        float, typer.Option(help="Pairs of the reference sample a person.", metavar="NUMBER")
    ] = 1.0,
    effect: Annotated[
        float | None, typer.Option(help="Ratio that the flow should find.", metavar="NUMBER")
    ] = None,
    sd: Annotated[
        float | None,
        typer.Option(help="Standard deviation of a person's loss ratio.", metavar="NUMBER"),
    ] = None,
    base_error: Annotated[
        float | None, typer.Option(help="Share of wrong decisions before.", metavar="SHARE")
    ] = None,
    delta: options.Delta = None,
    power: Annotated[
        float, typer.Option(help="How often it should be found.", metavar="SHARE")
    ] = 0.8,
) -> None:
    """Say how many people, and how large a reference sample, an audit needs.

    For matched pairs give --rate and --ratio; for the gradient flow --effect with --sd or
    --base-error.

    Example: likewise plan --rate 0.2 --ratio 1.5
    """
    from likewise._plan import plan as make_plan

    print(
        make_plan(
            rate=rate,
            ratio=ratio,
            comparisons=comparisons,
            pairs_per_person=pairs,
            effect=effect,
            sd=sd,
            base_error=base_error,
            delta=1.25 if delta is None else delta,
            power=power,
        )
    )
