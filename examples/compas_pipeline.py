"""Audit a scikit-learn pipeline that predicts whether a defendant is charged again (COMPAS).

The pipeline reads the table as it is. It sees sex and race among its columns, so the fair metric
learned from the audited people sets both free, together with what predicts them.
"""

from pathlib import Path

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise

people = likewise.data.compas(seed=0)
inputs = ["sex", "race", "priors_count", "age_cat", "c_charge_degree"]
train = people.train_table.to_pandas()

model = make_pipeline(
    make_column_transformer(
        (StandardScaler(), ["priors_count"]),
        (OneHotEncoder(drop="if_binary"), ["sex", "race", "age_cat", "c_charge_degree"]),
    ),
    LogisticRegression(),
)
model.fit(train[inputs], train["two_year_recid"])

audited = likewise.read(
    people.test_table.select([*inputs, "two_year_recid"]),
    label="two_year_recid",
    protected=["sex", "race"],
    raw=True,
)
# As in the paper: a higher price than by default, and a fifth of the time.
flow = likewise.GradientFlow(lam=100, time=1)
result = likewise.audit(model, audited, map=flow)

print(result.summary())
Path("compas.html").write_text(result.to_html(), encoding="utf-8")
