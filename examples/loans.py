"""Write a small table of loan applications, and a model that decides them."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
from sklearn.linear_model import LogisticRegression

from likewise.models import save_model

READS = ["income", "debt", "years", "postcode"]


def applications(n: int, seed: int) -> pa.Table:
    """Return applications; where someone lives goes with their group."""
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.4
    income = rng.normal(3.2 - 0.3 * group, 0.8, n).clip(1)
    debt = rng.gamma(2.0, 0.15, n)
    years = rng.integers(0, 20, n)
    postcode = rng.normal(0.6 - 1.2 * group, 0.8, n)
    score = 1.2 * (income - 3) - 2.0 * (debt - 0.3) + 0.05 * years + 0.9 * postcode
    paid = rng.random(n) < 1 / (1 + np.exp(-score))
    return pa.table(
        {
            "income": income.round(2),
            "debt": debt.round(2),
            "years": years,
            "postcode": postcode.round(2),
            "group": np.where(group, "B", "A"),
            "paid": np.where(paid, "yes", "no"),
        }
    )


train = applications(4000, seed=1)
pa.csv.write_csv(train, "train.csv")
pa.csv.write_csv(applications(4000, seed=2), "reference.csv")
pa.csv.write_csv(applications(1500, seed=3), "test.csv")

x = np.column_stack([train[name] for name in READS])
model = LogisticRegression().fit(x, train["paid"].to_pylist())
save_model(model, "model.safetensors")
