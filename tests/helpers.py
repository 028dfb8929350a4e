"""What several rooms' tests need: people, outcomes, and a command run in this process."""

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pandas as pd
import torch
from click.testing import Result
from typer.testing import CliRunner

from likewise.audit_data import AuditData
from likewise.cli import app
from likewise.data.survey import SAMPLE_SIZE, Survey
from likewise.outcomes import Outcomes
from likewise.run.executors import Inline
from likewise.run.journal import Memory
from likewise.session import Session
from likewise.stats.estimate import Estimate
from likewise.stats.tally import Sample, Tally


def people(n: int = 300, seed: int = 0, classes: int = 2, **more: Any) -> AuditData:
    """Return people of two groups: the first two of four features tell which, and so the label."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 4)) + np.outer(group, [1.0, 0.5, 0, 0])
    score = x @ [1.0, 1.0, 0.5, 0.0] + 0.5 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return AuditData.from_arrays(x, y, {"group": group}, **more)


def applicants(n: int, seed: int, effect: float = 0.5) -> pd.DataFrame:
    """Return people whose label leans on age, and on a zone that goes with sex."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age, zone = rng.normal(size=n), rng.normal(size=n) + 1.2 * sex
    y = rng.random(n) < 1 / (1 + np.exp(-(1.5 * age - effect * (zone - 0.6))))
    names = {"sex": np.where(sex, "f", "m"), "paid": np.where(y, "yes", "no")}
    return pd.DataFrame({"age": age, "zone": zone, **names})


def authors_network(weights: Any, name: str) -> torch.nn.Sequential:
    """Return one of the authors' networks on Adult; Project's first layer projects, too."""
    layers: list[torch.nn.Module] = []
    for number in "12":
        weight = torch.from_numpy(weights[f"{name}_W{number}"])
        if name == "project" and number == "1":
            basis = torch.linalg.qr(torch.from_numpy(weights["project_proj"]).T)[0]
            weight = weight - basis @ (basis.T @ weight)
        layers += [torch.nn.Linear(*weight.shape, dtype=torch.float64), torch.nn.ReLU()]
        layers[-2].weight.data = weight.T.contiguous()
        layers[-2].bias.data = torch.from_numpy(weights[f"{name}_b{number}"])
    return torch.nn.Sequential(*layers[:-1])


def survey_of(source: Any, seed: int = 0, size: int = SAMPLE_SIZE) -> Survey:
    """Return what one look at everyone sees, as an audit begins with it."""
    return Session(Inline(), Memory()).survey(source, seed, size, "looking")


def outcomes_of(
    ratio: Any = None,
    *,
    before: Any = None,
    after: Any = None,
    wrong_before: Any = None,
    wrong_after: Any = None,
    monotone: bool = False,
    **columns: Any,
) -> Outcomes:
    """Return outcomes with these ratios, or losses, or errors; everything else is plain."""
    given = next(v for v in (ratio, before, wrong_before) if v is not None)
    n = len(given)
    loss_before = np.ones(n) if before is None else np.asarray(before, dtype=float)
    loss_after = loss_before if after is None else np.asarray(after, dtype=float)
    if ratio is not None:
        loss_after = np.asarray(ratio, dtype=float)
    nobody = np.zeros(n, dtype=np.int64)
    defaults: dict[str, Any] = {
        "row": np.arange(n),
        "y": nobody,
        "loss_before": loss_before,
        "loss_after": loss_after,
        "decision_before": nobody if wrong_before is None else np.asarray(wrong_before, dtype=int),
        "decision_after": nobody if wrong_after is None else np.asarray(wrong_after, dtype=int),
        "probability_before": np.full(n, 0.5),
        "probability_after": np.full(n, 0.5),
        "fair_distance": np.zeros(n),
        "status": nobody,
        "about": {"monotone": monotone},
    }
    return Outcomes(**{**defaults, **columns})


def mean_of_ratios(ratio: Any, weight: Any = None, cluster: Any = None) -> Estimate:
    """Return the mean loss ratio of people with these weights and clusters."""
    return Sample(
        Tally.from_outcomes(outcomes_of(ratio, weight=weight, cluster=cluster))
    ).estimate()


def ratio_of_means(before: Any, after: Any, cluster: Any = None) -> Estimate:
    """Return the ratio of mean losses."""
    losses = {"before": before.astype(float), "after": after.astype(float)}
    outcomes = outcomes_of(**losses, cluster=cluster, about={"task": "regression"})
    return Sample(Tally.from_outcomes(outcomes)).estimate()


def run(*arguments: Any, **environment: Any) -> Result:
    """Run ``likewise`` with these arguments; what it does not turn into a sentence is raised."""
    variables = {name: str(value) for name, value in environment.items()}
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, catch_exceptions=False, env=variables)


def sentence(result: Result) -> str:
    """Return the one line with which a command refused."""
    assert result.exit_code == 2, result.output + result.stderr
    lines = [line for line in result.stderr.splitlines() if not line.startswith("Warning")]
    assert len(lines) == 1, lines
    return lines[0]


class Handler(BaseHTTPRequestHandler):
    """Hands rows to what its server is to do with them, and keeps every request."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((body, dict(self.headers)))
        self.server.behave(self, body["instances"])

    def answer(self, content: Any, code: int = 200, **headers: str) -> None:
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        pass


@contextlib.contextmanager
def serving(behave: Any = None) -> Iterator[Any]:
    """Serve from this machine; ``behave`` says what is done with rows."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests, server.behave = [], behave
    server.url = f"http://127.0.0.1:{server.server_address[1]}/predict"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
