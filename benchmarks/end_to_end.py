"""What one audit takes from the command to the report, stage by stage.

    python benchmarks/end_to_end.py [--people 9045] [--repeats 3] [--only KIND] [--json FILE]

Five models of Adult, each in a process of its own on one thread, in seconds of processor time: to
import, to read the table, to audit (core checks under a fixed metric; full checks with refits;
with refits and placebos until there are enough of them, and with all 39; real counterparts), and
to write the report. Audits go by the search within reach, those of models with gradients by the
flow, too; they are taken in turns, several times, and the median counts. Beside them what
the model itself takes: one prediction of 60 rows a person, as many as a search within reach asks
for, and the 80 rows a person of two traits' visits (equal rows are asked once). For the network
also a peer's way to the moved people alone: inFairness's auditor with 500 steps, where it can be
installed.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

KINDS = ("network", "logistic", "xgboost", "lightgbm", "forest")
GRADIENTS = ("network", "logistic")
AUDITS = ("core", "full", "full, placebos", "full, all placebos")
SPLIT = 98539
MAY_MATTER = ("age", "education-num", "hours-per-week")
ROWS = {"search": 60, "visits": 80}
"""Rows a person that the model is asked about, by a search within reach and by visits."""


def fitted(kind: str, x: Any, y: Any) -> Any:
    """Return a model of one kind, trained on these people."""
    if kind == "network":
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier((50,), max_iter=15, random_state=0).fit(x, y)
    if kind == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000).fit(x, y)
    if kind == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=200, max_depth=4, n_jobs=1).fit(x, y)
    if kind == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=200, num_leaves=15, n_jobs=1, verbose=-1).fit(x, y)
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(200, min_samples_leaf=10, random_state=0).fit(x, y)


def measure(kind: str, people: int, repeats: int) -> dict[str, float]:
    """Return the seconds of every stage, for one kind of model."""
    seconds: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        done = work()
        seconds[stage] = time.process_time() - began
        return done

    timed("import", lambda: __import__("likewise").audit)
    import numpy as np

    import likewise
    from likewise_studies.datasets import adult

    split = timed("read", lambda: adult(seed=SPLIT))

    def numbered(data: Any) -> Any:  # some libraries take numbers as classes only
        y = (np.asarray(data.y) == ">50K").astype(int)
        return likewise.AuditData.from_arrays(data.x, y, data.protected, features=data.features)

    train, test = numbered(split.train), numbered(split.test.take(np.arange(people)))
    model = fitted(kind, train.x, train.y)
    for name, rows in ROWS.items():
        many = np.repeat(test.x, rows, axis=0)
        seconds[f"model: {name}"] = float("inf")
        for _ in range(2):  # the first call may start threads and fill caches
            began = time.process_time()
            model.predict_proba(many)
            spent = time.process_time() - began
            seconds[f"model: {name}"] = min(spent, seconds[f"model: {name}"])

    def metric(**made: int) -> Any:
        return likewise.sensitive_subspace(train, **made)

    def audit(stage: str, by: str) -> Any:
        settings = likewise.Settings(checks=stage.partition(",")[0]).changed(map=by)
        if "all" in stage:  # so many at least as large are never enough
            settings = settings.changed(checks__placebo={"enough": 40})
        fair, run = metrics[stage], likewise.Threads(1)
        return likewise.audit(model, test, metric=fair, settings=settings, run=run)

    learned = timed("learn the metric", metric)
    metrics = dict(zip(AUDITS, (metric(groups=0, placebos=0), metric(placebos=0)), strict=False))
    metrics = dict.fromkeys(AUDITS, learned) | metrics
    for by in ("reach", "flow") if kind in GRADIENTS else ("reach",):
        audit("core", by)  # whatever is loaded once
        names = {("" if by == "reach" else f"{by}: ") + stage: stage for stage in AUDITS}
        turns = []
        for _ in range(repeats):
            for name, stage in names.items():
                timed(name, functools.partial(audit, stage, by))
            turns.append([seconds[name] for name in names])
        for name, taken in zip(names, zip(*turns, strict=True), strict=True):
            seconds[name] = statistics.median(taken)
    question = likewise.Counterparts(may_matter=MAY_MATTER)
    result = timed(
        "counterparts",
        lambda: likewise.audit(
            model, test, map=question, pool=train, checks="core", run=likewise.Threads(1)
        ),
    )
    frame = train.in_columns().table
    timed("pairs", lambda: [question.pairs(frame, trait) for trait in train.protected])
    seconds["counterparts, pairs apart"] = seconds["counterparts"] - seconds["pairs"]
    timed("report", result.to_html)
    if kind == "network":
        seconds["peer moves"] = peer()
    return seconds


def peer() -> float:
    """Return what inFairness takes to move the people of the paper's network; nan without it."""
    try:
        from flow_lines.contenders import infairness
        from flow_lines.networks import case

        network = case("baseline")
        infairness(network)
    except Exception as error:
        print(f"inFairness is not compared: {error}", file=sys.stderr)
        return float("nan")
    began = time.process_time()
    infairness(network)
    return time.process_time() - began


def main() -> int:
    """Measure every kind in a process of its own, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=9045)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(options.only, options.people, options.repeats)))
        return 0
    found = {}
    for kind in KINDS if options.only is None else [options.only]:
        command = [sys.executable, __file__, "--child", "--only", kind]
        command += ["--people", str(options.people), "--repeats", str(options.repeats)]
        found[kind] = json.loads(subprocess.run(command, check=True, stdout=-1).stdout)
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


def table(found: dict[str, dict[str, float]]) -> str:
    """Return the seconds of all stages, and the ratios that matter."""
    stages = dict.fromkeys(stage for row in found.values() for stage in row)
    lines = ["| seconds | " + " | ".join(found) + " |", "|---|" + "---:|" * len(found)]
    for stage in stages:
        cells = (f"{row[stage]:.2f}" if stage in row else "" for row in found.values())
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    for name in ("", "flow: "):
        core, full, some, every = (name + stage for stage in AUDITS)
        lines.append(ratio(found, f"{full} / core", [full], core))
        lines.append(ratio(found, f"{some} / core", [some], core))
        lines.append(ratio(found, f"{every} / core", [every], core))
        lines.append(ratio(found, f"{name}39 placebos alone / core", [every, full], core))
    visits = "counterparts, pairs apart"
    lines.append(ratio(found, "core / 60 rows a person", ["core"], "model: search"))
    lines.append(ratio(found, f"{visits} / 80 rows a person", [visits], "model: visits"))
    return "\n".join(lines)


def ratio(found: dict[str, dict[str, float]], words: str, over: list[str], under: str) -> str:
    """Return a line of ratios: of one stage, or of what it takes beyond another."""
    cells = []
    for row in found.values():
        known = under in row and all(stage in row for stage in over)
        beyond = sum(row[stage] for stage in over[1:]) if known else 0.0
        cells.append(f"{(row[over[0]] - beyond) / row[under]:.1f}" if known else "")
    return f"| {words} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
