"""What matched pairs cost beside the bare calls of the model they ask.

    python benchmarks/matched_pairs_speed.py

Adult: 9,045 people, a reference sample of 36,177 (for timing only: the model was trained on it),
sex and race, XGBoost of 200 trees. A pass is pairing, neighbours, composing rows and asking the
model; bare calls ask about as many rows that lie ready. The whole audit has 19 redraws and the
default checks. The same model from a file is asked in a process of its own, or in place if trusted.
Promises: a pass at most 1.6 times its bare calls, the audit at most 25 passes, the process at most
1.15 times what it takes in place. Times are CPU seconds of one thread, with those of processes, so
that other programs do not count; exit code 1 if a promise is broken.
"""

import dataclasses
import gc
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from xgboost import XGBClassifier

import likewise
from likewise._audit import bind, prepare
from likewise.executors import Inline, Memory
from likewise.session import Session
from likewise_studies.datasets import adult

MAY_MATTER = (
    *("age", "education-num", "hours-per-week", "capital-gain", "capital-loss"),
    *("workclass", "occupation"),
)
NEIGHBOURS = 20


def main() -> int:
    split = adult(seed=0)
    target = (split.train.y == ">50K").astype(int)
    model = XGBClassifier(n_estimators=200, max_depth=6, n_jobs=1, random_state=0)
    model.fit(split.train.x, target)
    people = split.test
    labels = {"<=50K": "0", ">50K": "1"}

    # As varied as composed rows are: trees answer equal rows, one after another, faster.
    rng = np.random.default_rng(0)
    rows = split.train.x[rng.integers(0, len(split.train), len(people) * 2 * NEIGHBOURS * 2)]
    began = time.process_time()
    for start in range(0, len(rows), 100_000):
        model.predict_proba(rows[start : start + 100_000])
    bare = time.process_time() - began
    print(f"bare calls: {len(rows):,} rows in {bare:.2f} s")

    choices = {"may_matter": MAY_MATTER, "label_map": labels, "favourable": ">50K"}
    with Session(Inline(), Memory()) as session:
        bound = bind(prepare(session, model, people, pool=split.train, checks="core", **choices))
        # The comparison alone, without redrawn attributes; its pairs are found again, to be timed.
        designs = [dataclasses.replace(design, redraw_count=0) for design in bound.designs]
        bound = dataclasses.replace(bound, designs=tuple(designs))
        began = time.process_time()
        session.measure(bound, bound.probes)
        one_pass = time.process_time() - began
    print(f"one pass: {one_pass:.2f} s, {one_pass / bare:.2f} times the bare calls (at most 1.6)")

    began = time.process_time()
    likewise.audit(
        model,
        people,
        pool=split.train,
        may_matter=MAY_MATTER,
        label_map=labels,
        favourable=">50K",
        executor=Inline(),
    )
    whole = time.process_time() - began
    print(f"whole audit: {whole:.2f} s, {whole / one_pass:.1f} passes (at most 25)")

    with tempfile.TemporaryDirectory() as folder:
        model.save_model(Path(folder) / "model.json")
        taken = {}
        for trust in (True, False):
            before = _cpu()
            likewise.audit(
                f"{folder}/model.json",
                people,
                pool=split.train,
                may_matter=MAY_MATTER,
                label_map=labels,
                favourable=">50K",
                checks="core",
                executor=Inline(),
                trust=trust,
            )
            gc.collect()  # a process counts once it has ended
            taken[trust] = _cpu() - before
    apart = taken[False] / taken[True]
    print(f"in a process of its own: {apart:.2f} times what it takes in place (at most 1.15)")
    return int(one_pass > 1.6 * bare or whole > 25 * one_pass or apart > 1.15)


def _cpu() -> float:
    """Return CPU seconds of this process and of those that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    sys.exit(main())
