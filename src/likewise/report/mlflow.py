"""MLflow: the metrics, parameters, report and result file of an audit in a run of the tracker."""

import contextlib
import math
import re
from collections.abc import Iterator

from likewise.errors import InvalidSettings, import_optional, in_short
from likewise.record import Record
from likewise.report.html import to_html

LONGEST = 500
"""Characters of a parameter or tag that every tracker takes."""


def log_run(record: Record, run_id: str | None = None) -> str:
    """Log a record in a run: the one named, the active one, or a new one. Return its id."""
    mlflow = import_optional("mlflow", "mlflow", "Logging to MLflow")
    try:
        run = mlflow.get_run(run_id) if run_id else mlflow.active_run()
        with contextlib.nullcontext(run) if run else mlflow.start_run() as run:
            client, name = mlflow.MlflowClient(), run.info.run_id
            client.set_tag(name, "likewise.verdict", record.verdict)
            client.set_tag(name, "likewise.sentence", record.sentence[:LONGEST])
            for parameter, value in parameters(record).items():
                client.log_param(name, parameter, value[:LONGEST])
            for metric, number in metrics(record):
                client.log_metric(name, metric, number)
            client.log_text(name, to_html(record), "likewise/report.html")
            client.log_text(name, record.to_json(), "likewise/result.json")
    except (mlflow.exceptions.MlflowException, OSError) as error:
        place = mlflow.get_tracking_uri()
        raise InvalidSettings(
            f"The tracker at {place!r} did not take the result: {in_short(error)}."
        ) from None
    return str(run.info.run_id)


def parameters(record: Record) -> dict[str, str]:
    """Return the choices of an audit, as text by name."""
    columns = record.settings.columns
    chosen = {
        "method": record.method,
        "delta": f"{record.delta:g}",
        "label": record.data.label,
        "protected": ",".join(columns.protected),
        "may_matter": ",".join(columns.may_matter),
        "favourable": record.settings.decide.favourable or "",
        "settings": record.settings_hash,
        "model": record.model.sha256,
    }
    return {f"likewise.{name}": value for name, value in chosen.items() if value}


def metrics(record: Record) -> Iterator[tuple[str, float]]:
    """Yield every finite figure by a name that a tracker takes."""
    found: list[tuple[str, float]] = [("people", record.data.n)]
    part = record.matched_pairs
    for row in () if part is None else part.comparisons:
        where = f"{row.attribute}/{row.group}/{row.other}"
        figures = {"ratio": row.ratio, "difference": row.difference, "p_adjusted": row.p_adjusted}
        figures |= {"ratio_low": row.interval[0], "ratio_high": row.interval[1]}
        found += [(f"{where}/{name}", value) for name, value in figures.items()]
    for name, test in record.tests.items():
        figures = {"S_n": test.S_n, "V_n": test.V_n, "T_n": test.T_n, "p": test.p_value}
        found += [(f"{name}/{letter}", value) for letter, value in figures.items()]
    for name, value in found:
        if math.isfinite(value):
            yield "likewise/" + re.sub(r"[^\w./ -]", "_", name, flags=re.ASCII), float(value)
