"""Audits a pipeline, a saved network and a forest with the core dependencies alone."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import likewise
from likewise.audit_data import AuditData
from likewise.models import open_model, save_model

rng = np.random.default_rng(0)
n = 1200
sex = rng.integers(0, 2, n)
x = np.column_stack([rng.normal(40, 10, n) + 3 * sex, rng.normal(30, 8, n) - 4 * sex])
y = (x[:, 1] + 0.2 * x[:, 0] + rng.normal(0, 6, n) > 38).astype(int)
table = pa.table({"age": x[:, 0], "income": x[:, 1], "sex": sex, "repaid": y})
scaled = (x - x.mean(axis=0)) / x.std(axis=0)

named = {"label": "repaid", "protected": "sex", "checks": "core"}
pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x[:600], y[:600])
forest = RandomForestClassifier(20, random_state=0).fit(x[:600], y[:600])
results = [
    likewise.audit(model, table.slice(600), may_matter=["age"], favourable=1, **named)
    for model in (pipeline, forest)
]

network = MLPClassifier((8,), max_iter=500, tol=1e-2, random_state=0).fit(scaled[:600], y[:600])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "network.safetensors"
    save_model(network, path)
    opened = open_model(str(path))
rows = AuditData.from_arrays(scaled[600:], y[600:], {"sex": sex[600:]})
metric = likewise.metrics.ignoring(np.array([[1.0, -1.0]]))
results.append(likewise.audit(opened, rows, metric=metric, checks="core"))

for result in results:
    print(f"{result.record.model.kind}: {result.sentence}")
loaded = {"torch", "matplotlib"} & set(sys.modules)
sys.exit(f"These were loaded: {', '.join(sorted(loaded))}." if loaded else 0)
