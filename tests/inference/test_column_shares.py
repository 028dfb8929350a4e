"""Shares of columns add up, fall on the column that is used, and have honest intervals."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.data.arrow import column_groups
from likewise.inference.column_shares import column_shares, parts_of


def product_loss(x, other):
    """Return a loss with interactions, as a function of rows and of what comes from others."""

    def ask(rows, mask):
        z = np.where(mask, other[rows], x[rows])
        return np.exp(z.sum(axis=1) / 3) + z[:, 0] * z[:, -1]

    return ask


@pytest.mark.parametrize("groups", [1, 3, 8, 11])
def test_shares_of_every_row_add_up_to_the_whole_difference(groups):
    rng = np.random.default_rng(0)
    x, other = rng.normal(size=(2, 30, groups))
    ask = product_loss(x, other)
    parts = parts_of(ask, 30, groups, rng)
    everyone = np.arange(30)
    whole = ask(everyone, np.ones((30, groups), bool)) - ask(everyone, np.zeros((30, groups), bool))
    np.testing.assert_allclose(parts.shapley.sum(axis=1), whole, atol=1e-12)
    np.testing.assert_allclose(parts.whole, whole, atol=1e-12)


def test_two_groups_have_the_shapley_values_of_the_textbook():
    rng = np.random.default_rng(1)
    x, other = rng.normal(size=(2, 20, 2))
    parts = parts_of(product_loss(x, other), 20, 2, rng)
    one = (parts.alone[:, 0] + parts.whole - parts.alone[:, 1]) / 2
    np.testing.assert_allclose(parts.shapley[:, 0], one, atol=1e-12)
    np.testing.assert_allclose(parts.without[:, 0], parts.alone[:, 1], atol=1e-12)


def test_sampled_orders_agree_with_all_of_them_on_average():
    rng = np.random.default_rng(2)
    x, other = rng.normal(size=(2, 4000, 4))
    ask = product_loss(x, other)
    exact = parts_of(ask, 4000, 4, rng).shapley.mean(axis=0)
    from likewise.inference.column_shares import _sampled

    nothing = ask(np.arange(4000), np.zeros((4000, 4), bool))
    sampled = _sampled(ask, nothing, 4, rng)
    error = sampled.std(axis=0) / np.sqrt(4000)
    # Four numbers within four standard errors: false alarm below 3e-4.
    assert (np.abs(sampled.mean(axis=0) - exact) < 4 * error).all()


def test_the_interval_of_a_share_covers_it():
    """300 draws; with coverage .95 fewer than .91 covered has probability .002."""
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        size = np.exp(rng.normal(size=(60, 2))) * [3.0, 1.0]

        def ask(rows, mask, size=size):
            return 1 + (mask * size[rows]).sum(axis=1)

        parts = parts_of(ask, 60, 2, rng)
        found = column_shares(["a", "b"], parts, level=60.0, weight=np.ones(60), unit=np.arange(60))
        low, high = next(one.interval for one in found if one.column == "a")
        covered += low <= 0.75 <= high
    assert covered / 300 >= 0.91


def test_levels_of_one_category_are_one_column():
    table = pa.table(
        {
            "race_White": [1, 0, 0],
            "race_Black": [0, 1, 0],
            "capital_gain": [5.0, 0.0, 1.0],
            "capital_loss": [0.0, 1.0, 0.0],
            "age": [3, 4, 5],
        }
    )
    assert column_groups(table, table.column_names) == {
        "race": ("race_White", "race_Black"),
        "capital_gain": ("capital_gain",),
        "capital_loss": ("capital_loss",),
        "age": ("age",),
    }


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age, zone, car = (rng.normal(size=n) + shift * sex for shift in (0, 0.9, 0.9))
    y = rng.random(n) < 1 / (1 + np.exp(-(age - 1.2 * zone)))
    columns = {"age": age, "zone": zone, "car": car}
    return pa.table(columns | {"sex": np.where(sex == 1, "f", "m"), "y": y.astype(int)})


def scored(*weights):
    model = LogisticRegression()
    model.coef_, model.intercept_, model.classes_ = np.array([weights]), np.zeros(1), np.arange(2)
    return model


@pytest.fixture(scope="module")
def audited():
    from likewise.engine.counterpart_walk import get_counterparts_ready

    settings = likewise.Settings(checks="core").changed(
        columns__label="y",
        columns__protected=("sex",),
        map={"name": "counterparts", "may_matter": ("age",), "swaps": 99},
    )

    def one(*weights):
        import contextlib

        with contextlib.ExitStack() as stack:
            plan = get_counterparts_ready(
                scored(*weights),
                people(300, 1),
                pool=people(1000, 2),
                settings=settings,
                stack=stack,
                run=likewise.Inline(),
                trust=False,
                progress=None,
            )
            from likewise.engine.carried import carried, moved_in

            shares = carried(plan, "sex")
            return shares, moved_in(plan, "sex", shares, None)

    return one


def test_a_model_that_uses_one_proxy_alone_has_its_share_on_it(audited):
    shares, moved = audited(1.0, -1.2, 0.0)
    assert [one.column for one in shares] == ["zone", "car"]
    assert shares[0].share == pytest.approx(1.0)
    assert shares[1].share == pytest.approx(0.0)
    assert shares[0].without == pytest.approx(1.0)
    assert shares[0].alone > 1.1
    # With the proxy among the columns that may matter, nothing is left.
    assert moved["zone"].overall.estimate == pytest.approx(1.0)
    assert moved["car"].overall.estimate > 1.1


def test_two_proxies_of_equal_weight_share_alike(audited):
    shares, _ = audited(1.0, -1.0, -1.0)
    assert sum(one.share for one in shares) == pytest.approx(1.0)
    for one in shares:
        assert one.interval[0] < 0.5 < one.interval[1]
        assert one.interval[1] - one.interval[0] < 0.6


def test_moves_are_shared_out_among_the_columns_that_moved():
    table = people(400, 4)
    x = np.column_stack([table[name].to_numpy() for name in ("age", "zone", "car")])
    someone = likewise.AuditData.from_arrays(
        x,
        table["y"].to_numpy(),
        {"sex": np.array(table["sex"].to_pylist())},
        features=["age", "zone", "car"],
    )
    alike = likewise.ignoring([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    flow = likewise.GradientFlow(lam=100.0, time=0.3)
    found = likewise.audit(
        scored(1.0, -1.2, 0.0), someone, metric=alike, map=flow, checks=("columns",)
    )
    first = found.record.carried[0]
    assert first.column == "zone"
    assert first.share == pytest.approx(1, abs=0.1)
    assert sum(one.share for one in found.record.carried) == pytest.approx(1)
    assert "Carried by" in found.summary()
    assert "Which columns carry it" in found.to_html()
