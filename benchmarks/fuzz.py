"""Whatever a file holds, the answer is a result or one sentence: 100 000 damaged inputs.

python benchmarks/fuzz.py [INPUTS] [TARGET ...]

Every target takes damaged or invented input and may raise nothing but a `LikewiseError`. Each runs
in a process of its own, so that a crash inside a library is seen as one.
"""

import dataclasses
import http.server
import io
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch
from skl2onnx import to_onnx
from sklearn.linear_model import LogisticRegression
from skops import io as skops

import likewise
from likewise.data.encode import Encoder
from likewise.errors import LikewiseError
from likewise.models import Endpoint
from likewise.outcomes import Outcomes
from likewise.record import Record
from likewise.report.outputs import write_outputs
from likewise.scale.journal import Journal
from likewise.settings import Settings, make_settings
from likewise.settings_file import read_settings, write_settings

INPUTS = 100_000
MARK = "<img src=x onerror=alert(1)>"


@dataclasses.dataclass(frozen=True)
class Target:
    """Something that reads what others wrote.

    Parameters
    ----------
    inputs
        Where inputs come from.
    run
        Reads one; returns or raises a `LikewiseError`.
    share
        Its share of all inputs.
    """

    inputs: st.SearchStrategy[Any]
    run: Callable[[Any], object]
    share: float


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """Return versions of a file with bytes changed, cut off, put in, or repeated."""

    def damage(
        edits: list[tuple[float, int]], cut: float, extra: bytes, where: float, twice: bool
    ) -> bytes:
        content = bytearray(good)
        for place, value in edits:
            content[int(place * (len(content) - 1))] = value
        at = int(where * len(content))
        content[at:at] = extra
        if twice:
            content += content[at:]
        return bytes(content[: len(content) - int(cut * len(content))])

    share = st.floats(0, 1)
    return st.builds(
        damage,
        st.lists(st.tuples(share, st.integers(0, 255)), max_size=6),
        st.one_of(st.just(0.0), share),
        st.one_of(st.just(b""), st.binary(max_size=8)),
        share,
        st.booleans(),
    )


def people(n: int = 60) -> pa.Table:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    job = rng.choice(["cook", "judge"], n)
    return pa.table(
        {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "g": job, "y": (x[:, 0] > 0).astype(int)}
    )


def targets(folder: Path) -> dict[str, Target]:
    """Return all targets; their files go into a folder."""
    table = people()
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    csv = sink.getvalue()
    pq.write_table(table, folder / "good.parquet")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    likewise.save_model(net, folder / "good.safetensors", classes=(0, 1))
    metric = likewise.ignoring(torch.tensor([[1.0, 0.5, 0.0]], dtype=torch.float64))
    likewise.save_metric(metric, folder / "metric.safetensors")
    encoder = Encoder.fit(table, label="y", protected="g").to_json().encode()
    data = likewise.read(table, label="y", protected="g")
    result = likewise.audit(net, data, metric=metric, settings=Settings(checks="core"), threads=1)
    result.outcomes.save(folder / "good_outcomes.parquet")
    record = result.record

    def file(name: str, read: Callable[[str], object]) -> Callable[[bytes], object]:
        path = folder / name

        def run(content: bytes) -> object:
            path.write_bytes(content)
            return read(str(path))

        return run

    def read_table(path: str) -> object:
        return likewise.read(path, label="y", protected="g")

    def model(path: str) -> object:
        opened = likewise.as_model(likewise.open_model(path))
        return opened(torch.zeros(2, opened.card.n_features or 3, dtype=torch.float64))

    def report(text: str) -> None:
        found = Record.from_json(text)
        write_outputs(
            found,
            html=folder / "r.html",
            junit=folder / "r.xml",
            csv=folder / "r.csv",
            markdown=folder / "r.md",
        )
        assert MARK not in (folder / "r.html").read_text(encoding="utf-8")

    def journal(content: bytes) -> object:
        place = folder / "journal"
        place.mkdir(exist_ok=True)
        (place / "identity.json").write_bytes(content)
        return Journal.open(place, {"settings": "1"}, resume=True)

    logistic = LogisticRegression().fit(np.column_stack([table[c] for c in "abc"]), table["y"])
    graph = to_onnx(logistic, np.zeros((1, 3), np.float32), options={"zipmap": False})
    onnx = graph.SerializeToString()
    mlflow = folder / "mlflow"
    mlflow.mkdir(exist_ok=True)
    (mlflow / "model.onnx").write_bytes(onnx)
    listing = b"flavors:\n  onnx:\n    data: model.onnx\n    onnx_version: 1.19.0\n"

    def mlflow_folder(content: bytes) -> object:
        (mlflow / "MLmodel").write_bytes(content)
        return model(str(mlflow))

    choices = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*Settings.model_fields, "lam", "time", "label", "map", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )
    named = st.dictionaries(st.sampled_from([*Settings.model_fields, "x"]), choices, max_size=5)
    words = st.one_of(st.text(max_size=30), st.sampled_from([MARK, "=1+1", "@x", "\x00", "\ud800"]))
    return {
        "settings (text)": Target(
            damaged(write_settings(Settings()).encode()), file("s.toml", read_settings), 0.15
        ),
        "settings (values)": Target(named, make_settings, 0.15),
        "CSV": Target(damaged(csv), file("t.csv", read_table), 0.1),
        "Parquet": Target(
            damaged((folder / "good.parquet").read_bytes()), file("t.parquet", read_table), 0.1
        ),
        "model file": Target(
            damaged((folder / "good.safetensors").read_bytes()), file("m.safetensors", model), 0.1
        ),
        "ONNX": Target(damaged(onnx), file("m.onnx", model), 0.04),
        "skops": Target(damaged(skops.dumps(logistic)), file("m.skops", model), 0.02),
        "MLflow folder": Target(damaged(listing), mlflow_folder, 0.02),
        "endpoint": Target(
            damaged(b'{"predictions": [[0.25, 0.75], [1.0, 0.0]]}'), answered(), 0.02
        ),
        "metric file": Target(
            damaged((folder / "metric.safetensors").read_bytes()),
            file("d.safetensors", likewise.load_metric),
            0.05,
        ),
        "encoder": Target(damaged(encoder), file("e.json", Encoder.load), 0.05),
        "outcomes": Target(
            damaged((folder / "good_outcomes.parquet").read_bytes()),
            file("o.parquet", Outcomes.read),
            0.05,
        ),
        "result file": Target(
            damaged(record.to_json().encode()), file("r.json", Record.read), 0.05
        ),
        "report": Target(st.builds(lambda w: _with_words(record, w), words), report, 0.02),
        "journal": Target(damaged(b'{"settings": "1"}'), journal, 0.08),
    }


def answered() -> Callable[[bytes], object]:
    """Return what asks a server on this machine about two people, and is given these bytes."""
    answers: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answers[-1])))
            self.end_headers()
            self.wfile.write(answers[-1])

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/predict")

    def run(content: bytes) -> object:
        answers.append(content)
        return endpoint(np.zeros((2, 3)))

    return run


def _with_words(record: Record, word: str) -> str:
    """Put a word wherever a user's own text may stand."""
    raw = json.loads(record.to_json())
    raw["data"]["source"] = raw["command"] = raw["sentence"] = word
    raw["data"]["features"] = [word, *raw["data"]["features"][1:]]
    raw["warnings"] = [word]
    for group in raw["groups"]:
        group["group"] = word
    for case in raw["worst"]:
        case["groups"] = {word: word}
        case["before"] = {word: word}
        case["label"] = word
    return json.dumps(raw)


def attack(target: Target, count: int, seed: int = 0) -> tuple[int, int]:
    """Run a target on so many inputs; return how many ran, and how many were refused."""
    ran = refused = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(target.inputs)
    def run(value: Any) -> None:
        nonlocal ran, refused
        ran += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.run(value)
        except LikewiseError:
            refused += 1

    run()
    return ran, refused


def main(inputs: int, wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        names = wanted or list(targets(Path(name)))
    print(f"{'target':<20}{'inputs':>10}{'refused':>10}{'seconds':>10}")
    total = 0
    for name in names:
        began = time.perf_counter()
        command = [sys.executable, __file__, "--one", name, str(inputs)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[-4000:])
            raise SystemExit(f"{name}: an input that is neither read nor refused")
        ran, refused = map(int, done.stdout.split()[-2:])
        total += ran
        print(f"{name:<20}{ran:>10,}{refused:>10,}{time.perf_counter() - began:>10.0f}", flush=True)
    print(f"{total:,} inputs, each read or refused in a sentence")


def one(name: str, inputs: int) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        target = targets(Path(folder))[name]
        ran = refused = seed = 0
        # Hypothesis grows slow with the examples it remembers, so they come in batches.
        while ran < target.share * inputs:
            more, no = attack(target, min(1000, round(target.share * inputs) - ran), seed)
            ran, refused, seed = ran + more, refused + no, seed + 1
    print(ran, refused)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], int(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS, sys.argv[2:])
