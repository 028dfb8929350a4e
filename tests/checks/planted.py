"""Planted truths: people whose proxies, hidden factors and subgroups are known."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import likewise

READ = ("skill", "zone", "car", "size")


def population(n, seed, *, zone=1.2, car=1.2, odds=None):
    """Return people: skill may matter, zone and car go with the group, size with nothing.

    With ``odds``, ``zone`` is 1 or −1 with odds that differ so many times between the groups.
    """
    rng = np.random.default_rng(seed)
    skill = rng.normal(size=n)
    group = rng.random(n) < 1 / (1 + np.exp(-0.5 * skill))
    columns = {"skill": skill}
    columns["zone"] = rng.normal(size=n) + zone * group
    if odds is not None:
        tall = np.sqrt(odds)
        share = np.where(group, tall / (1 + tall), 1 / (1 + tall))
        columns["zone"] = np.where(rng.random(n) < share, 1.0, -1.0)
    columns["car"] = rng.normal(size=n) + car * group
    columns["size"] = rng.normal(size=n)
    chance = 1 / (1 + np.exp(-skill))
    paid = (rng.random(n) < chance).astype(int)
    return pd.DataFrame(columns | {"group": np.where(group, "b", "a"), "paid": paid})


def linear(skill=1.0, zone=0.0, car=0.0, size=0.0, intercept=-0.5, more=()):
    """Return a model with these weights, which decides 1 where its score is positive."""
    model = LogisticRegression()
    model.coef_ = np.array([[skill, zone, car, size, *(weight for _, weight in more)]])
    model.intercept_, model.classes_ = np.array([intercept]), np.arange(2)
    model.feature_names_in_ = np.array([*READ, *(name for name, _ in more)], dtype=object)
    model.n_features_in_ = len(model.feature_names_in_)
    return model


def audited(model, people, pool, *checks, may_matter=("skill",), **more):
    """Return the audit of a model by group, with some checks."""
    return likewise.audit(
        model,
        people,
        label="paid",
        protected="group",
        may_matter=may_matter,
        pool=pool,
        favourable=1,
        checks=checks,
        **more,
    )
