"""Audit a model of one's own on a CSV file of one's own, from the command line's point of view.

Everything that the commands need is written to files: two halves of the people, and the model.
The people are made up: an old postcode and an income go with their origin, and the model uses
the postcode.
"""

import csv

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import likewise

rng = np.random.default_rng(0)
n = 2000
origin = rng.integers(0, 2, n)
postcode_wealth = rng.normal(size=n) - 0.8 * origin
income = 30 + 8 * rng.normal(size=n) + 3 * postcode_wealth
debt = np.exp(rng.normal(size=n))
repaid = income / 8 - debt + rng.normal(size=n) > 2.5

for name, rows in (("train.csv", range(1000)), ("test.csv", range(1000, n))):
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["postcode_wealth", "income", "debt", "origin", "repaid"])
        for i in rows:
            place = "here" if origin[i] else "abroad"
            answer = "yes" if repaid[i] else "no"
            writer.writerow([postcode_wealth[i], income[i], debt[i], place, answer])

train = likewise.read("train.csv", label="repaid", protected=["origin"])
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(train.x, train.y)
joblib.dump(model, "model.joblib")
