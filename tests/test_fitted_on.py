"""A model is fed what it was fitted on: original columns or an encoder's features, found out."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import likewise
from helpers import run
from likewise.errors import MissingValues
from likewise.models import as_model
from likewise.settings import Settings

COLUMNS = ["income", "age", "debt"]
CORE = Settings(checks="core", map={"name": "reach", "budget": 8})


@pytest.fixture(scope="module")
def table():
    """Numbers in euros and years; the first 300 people train, the others are audited."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, 2, 600)
    income = np.round(30_000 + 9_000 * rng.normal(size=600) + 4_000 * group, 2)
    age = rng.integers(20, 70, 600)
    debt = np.round(np.exp(8 + rng.normal(size=600)), 2)
    score = (income - 32_000) / 9_000 + (age - 45) / 14 - np.log(debt) + 8
    y = (score + rng.normal(size=600) > 0).astype(int)
    group = np.where(group, "m", "f")
    return pd.DataFrame({"income": income, "age": age, "debt": debt, "group": group, "y": y})


@pytest.fixture(scope="module")
def encoder(table):
    return likewise.Encoder.fit(table[:300], label="y", protected=["group"])


@pytest.fixture(scope="module")
def people(table, encoder):
    return likewise.read(table[300:], label="y", protected=["group"], encoder=encoder)


def xgboost():
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, max_depth=3)


def lightgbm():
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=20, verbose=-1)


def catboost():
    library = pytest.importorskip("catboost")
    return library.CatBoostClassifier(iterations=30, verbose=0, allow_writing_files=False)


KINDS = {
    "logistic": lambda: LogisticRegression(max_iter=5000),
    "forest": lambda: RandomForestClassifier(15, random_state=0),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "HistGB": lambda: HistGradientBoostingClassifier(max_iter=20),
    "MLP": lambda: MLPClassifier((5,), max_iter=300, random_state=0),
    "XGBoost": xgboost,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.fixture(scope="module")
def fitted(table, encoder):
    """Return what fits an estimator on original columns or on features, once."""
    known = {}

    def fit(kind, space):
        if (kind, space) not in known:
            features, raw = encoder.encode(table[:300]), table[:300][COLUMNS].to_numpy()
            in_features = space == "encoded" or kind == "MLP"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = KINDS[kind]().fit(features if in_features else raw, table[:300]["y"])
            if kind == "MLP" and space == "original":
                # A network hardly learns from euros: the same one, with the units in its weights.
                matrix, offset = encoder.line(COLUMNS)
                model.coefs_[0] = model.coefs_[0] / np.diag(matrix)[:, None]
                model.intercepts_[0] = model.intercepts_[0] - offset @ model.coefs_[0]
            known[kind, space] = model
        return known[kind, space]

    return fit


def own_answers(estimator, space, table, encoder):
    rows = table[300:][COLUMNS].to_numpy() if space == "original" else encoder.encode(table[300:])
    return estimator.predict_proba(rows)[:, 1]


def check_record(record, p, y, space):
    assert (
        record.model.fed
        == {"original": "original columns", "encoded": "the encoder's features"}[space]
    )
    assert record.model.balanced_accuracy == pytest.approx(
        balanced_accuracy_score(y, p > 0.5), abs=1e-6
    )
    assert record.model.auc == pytest.approx(roc_auc_score(y, p), abs=1e-6)


@pytest.mark.filterwarnings("ignore::likewise.errors.LikewiseWarning")
@pytest.mark.parametrize("space", ["original", "encoded"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_fed_what_it_was_fitted_on(kind, space, fitted, table, encoder, people):
    estimator = fitted(kind, space)
    result = likewise.audit(estimator, people, settings=CORE)
    p, y = own_answers(estimator, space, table, encoder), table[300:]["y"].to_numpy()
    found = np.where(
        y == 1, result.outcomes.probability_before, 1 - result.outcomes.probability_before
    )
    assert np.abs(found - p).max() < 1e-6
    check_record(result.record, p, y, space)
    fed = {"original": "original columns", "encoded": "the encoder's features"}[space]
    assert f"fed: {fed}" in " ".join(result.summary().split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("fitted-on")
    table[:300].to_csv(folder / "train.csv", index=False)
    table[300:].to_csv(folder / "people.csv", index=False)
    learned = run("metric", folder / "train.csv", "--label", "y", "--protected", "group",
                  "-o", folder / "metric.safetensors")  # fmt: skip
    assert learned.exit_code == 0, learned.stderr
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_file_that_carries_an_encoder_does_not_feed_features_to_a_model_of_columns(
    kind, fitted, folder, table, encoder, tmp_path
):
    estimator = fitted(kind, "original")
    joblib.dump(estimator, tmp_path / "model.joblib")
    result = run(
        "audit", tmp_path / "model.joblib", folder / "people.csv", "--trust",
        "--label", "y", "--protected", "group", "--metric", folder / "metric.safetensors",
        "--checks", "core", "--map", "reach", "--set", "map.budget=8",
        "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert result.exit_code in (0, 1), result.stderr
    p, y = own_answers(estimator, "original", table, encoder), table[300:]["y"].to_numpy()
    check_record(likewise.Record.read(tmp_path / "r.json"), p, y, "original")


def test_a_frame_of_named_columns_is_original_without_asking_for_losses(table):
    frame = table.assign(job=np.where(table.age % 2, "cook", "smith"))
    encoder = likewise.Encoder.fit(frame[:300], label="y", protected=["group"])
    model = LogisticRegression(max_iter=5000).fit(frame[:300][["age", "income"]], frame[:300]["y"])
    found = as_model(model, encoder=encoder)
    assert found.card.space == "original"
    x = encoder.encode(frame[300:])
    p = model.predict_proba(frame[300:][["age", "income"]])
    logit = found(x)[:, 0]
    np.testing.assert_allclose(1 / (1 + np.exp(-logit)), p[:, 1], atol=1e-9)


def test_gradients_go_through_the_decoding(table, encoder):
    model = MLPClassifier((5,), max_iter=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table[:300][COLUMNS].to_numpy() / 1000, table[:300]["y"])
    found = as_model(model, encoder=encoder, space="original")
    x, y = encoder.encode(table[300:310]) / 100, table[300:310]["y"].to_numpy()
    gradient = found.loss_gradient(x, y)
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-6
        slope = (found.loss(found(x + step), y) - found.loss(found(x - step), y)) / 2e-6
        # Central differences of 1e-6 are good to about 1e-8 times the curvature in euros.
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-4, atol=1e-3)
    network = found.network
    assert network is not None
    hidden = np.maximum(network.layers[0].weight @ x.T + network.layers[0].bias, 0)
    out = network.layers[1].weight @ hidden + network.layers[1].bias
    np.testing.assert_allclose(out.T, found(x), rtol=1e-9)


def test_a_model_that_knows_nothing_in_either_space_stops_the_audit(people):
    rng = np.random.default_rng(0)
    nonsense = RandomForestClassifier(5, random_state=0).fit(
        rng.normal(size=people.x.shape), rng.integers(0, 2, 300)
    )
    with pytest.raises(likewise.errors.Untrustworthy, match=r"model\.space"):
        likewise.audit(nonsense, people, settings=CORE)
    settings = CORE.changed(model__space="encoded")
    with pytest.warns(likewise.errors.StatisticalWarning, match="no better than a constant"):
        likewise.audit(nonsense, people, settings=settings)


def test_a_constant_model_is_audited_with_a_warning(people):
    constant = DummyClassifier().fit(people.x, people.y)
    with pytest.warns(likewise.errors.StatisticalWarning, match="no better than a constant"):
        result = likewise.audit(constant, people, settings=CORE)
    assert result.record.model.auc == 0.5


def test_without_labels_one_is_asked(people, fitted):
    with pytest.raises(likewise.errors.InvalidModel, match=r"no labels.*model\.space=original"):
        as_model(fitted("forest", "original"), encoder=people.encoder, table=people.table)


def test_what_was_said_counts(people, fitted, table, encoder):
    settings = CORE.changed(model__space="encoded")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = likewise.audit(fitted("forest", "original"), people, settings=settings).record
    assert record.model.fed == "the encoder's features"
    assert record.settings.model.space == "encoded"


def test_a_column_that_the_encoder_leaves_out_is_named(table, encoder, people):
    frame = table[:300].assign(member=(table.group == "m").astype(int), extra=1.0)
    model = LogisticRegression().fit(frame[["age", "member"]], frame["y"])
    both = likewise.read(
        table[300:].assign(member=(table.group == "m").astype(int)),
        label="y", protected=["member"], ignore=["group"], encoder=encoder,
    )  # fmt: skip
    with pytest.raises(
        likewise.errors.InvalidModel, match=r"reads the column 'member'.*columns.inputs"
    ):
        likewise.audit(model, both, settings=CORE)


def test_too_many_inputs_lead_out_not_in_circles(table, people):
    model = LogisticRegression().fit(
        np.random.default_rng(0).normal(size=(300, 7)), table[:300]["y"]
    )
    with pytest.raises(
        likewise.errors.InvalidModel, match=r"takes 7 inputs.*3 features of 3 columns"
    ):
        likewise.audit(model, people, settings=CORE)


def test_a_regression_finds_its_space_too(table, encoder):
    frame = table.assign(y=table.income / 3 - table.debt).drop(columns="debt")
    people = likewise.read(
        frame[300:], label="y", protected=["group"],
        encoder=likewise.Encoder.fit(frame[:300], label="y", protected=["group"]),
    )  # fmt: skip
    line = LinearRegression().fit(frame[:300][["income", "age"]].to_numpy(), frame[:300]["y"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = likewise.audit(line, people, settings=CORE).record
    assert record.model.fed == "original columns"


def test_other_kinds_of_models_find_their_space(table, encoder, people):
    raw = table[:300][COLUMNS].to_numpy()
    forest = RandomForestClassifier(15, random_state=0).fit(raw, table[:300]["y"])
    record = likewise.audit(
        lambda rows: forest.predict_proba(rows)[:, 1], people, settings=CORE
    ).record
    assert record.model.fed == "original columns"


def test_workers_are_told_what_was_found_out(fitted, folder, table, encoder, tmp_path):
    estimator = fitted("forest", "original")
    joblib.dump(estimator, tmp_path / "model.joblib")
    result = run(
        "audit", tmp_path / "model.joblib", folder / "people.csv", "--trust",
        "--label", "y", "--protected", "group", "--metric", folder / "metric.safetensors",
        "--checks", "core", "--set", "map.budget=8", "--run", "processes:1",
        "--json", tmp_path / "r.json", "--outcomes", tmp_path / "o.parquet",
    )  # fmt: skip
    assert result.exit_code in (0, 1), result.stderr
    p, y = own_answers(estimator, "original", table, encoder), table[300:]["y"].to_numpy()
    check_record(likewise.Record.read(tmp_path / "r.json"), p, y, "original")
    true = likewise.Outcomes.read(tmp_path / "o.parquet").probability_before
    np.testing.assert_allclose(true, np.where(y == 1, p, 1 - p), atol=1e-9)


def test_a_metric_file_knows_gaps_and_nobody_is_moved_along_them(table, tmp_path):
    gappy = table.assign(debt=table.debt.where(np.arange(600) % 7 > 0))
    gappy[:300].to_csv(tmp_path / "train.csv", index=False)
    gappy[300:].to_csv(tmp_path / "test.csv", index=False)
    trees = HistGradientBoostingClassifier(max_iter=8).fit(gappy[COLUMNS][:300], gappy["y"][:300])
    joblib.dump(trees, tmp_path / "trees.joblib")
    line = LogisticRegression(max_iter=2000).fit(table[COLUMNS][:300], table["y"][:300])
    joblib.dump(line, tmp_path / "line.joblib")
    roles = ["--label", "y", "--protected", "group"]
    metric = ["--metric", tmp_path / "metric.safetensors"]
    learned = run(
        "metric", tmp_path / "train.csv", *roles, "-o", metric[1],
        "--set", "metric.placebos=0", "--set", "metric.groups=2",
    )  # fmt: skip
    assert learned.exit_code == 0, learned.stderr
    free = likewise.load_metric(metric[1])
    assert np.abs(free.free[:, list(free.features).index("debt is missing")]).max() < 1e-12
    asked = [tmp_path / "test.csv", *roles, *metric, "--trust", "--checks", "core"]
    done = run(
        "audit", tmp_path / "trees.joblib", *asked, "--set", "map.budget=8",
        "-o", tmp_path / "o.parquet",
    )  # fmt: skip
    assert done.exit_code in (0, 1), done.stderr
    outcomes = likewise.Outcomes.read(tmp_path / "o.parquet")
    p = trees.predict_proba(gappy[COLUMNS][300:])[np.arange(300), gappy["y"][300:]]
    assert outcomes.probability_before == pytest.approx(p, abs=1e-9)
    refused = run("audit", tmp_path / "line.joblib", *asked)
    assert refused.exit_code == 2
    assert "'debt' is missing for some people. Leave them out" in refused.stderr


@pytest.mark.parametrize("named", [True, False])
def test_a_pipeline_that_passes_gaps_on_to_trees_is_audited_as_the_trees_alone_are(table, named):
    gappy = table.assign(debt=table.debt.where(np.arange(600) % 7 > 0))
    x = gappy[COLUMNS][:300] if named else gappy[COLUMNS][:300].to_numpy()
    people = likewise.read(gappy[300:], label="y", protected=["group"], raw=True)
    settings = likewise.Settings(
        checks="core",
        map={"name": "reach", "budget": 30},
        metric={"placebos": 0, "refits": 0},
        decide={"metric": "fixed"},
    )
    results = []
    for steps in ([], [StandardScaler()]):
        trees = HistGradientBoostingClassifier(max_iter=8)
        model = make_pipeline(*steps, trees).fit(x, gappy["y"][:300])
        results.append(likewise.audit(model, people, settings=settings).outcomes.loss_after)
    # Thresholds lie between other numbers once these are scaled, so few people may differ.
    assert (np.abs(results[0] - results[1]) < 1e-9).mean() > 0.95
    assert len(results[0]) == 300


def test_a_pipeline_that_neither_fills_gaps_nor_reads_them_is_told_who_has_them(table):
    gappy = table.assign(debt=table.debt.where(np.arange(600) % 7 > 0))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table[COLUMNS], table["y"])
    people = likewise.read(gappy[300:], label="y", protected=["group"], raw=True)
    with pytest.raises(likewise.LikewiseError, match=r"43 of 300 rows have NaN.*debt"):
        likewise.audit(model, people, settings=likewise.Settings(checks="core"))


class OwnCode:
    """Somebody's own model: it answers, and does not say which columns it reads."""

    def __init__(self, pipeline):
        self.pipeline, self.classes_ = pipeline, pipeline.classes_

    def predict_proba(self, rows):
        return self.pipeline.predict_proba(rows)


def test_functions_and_own_classes_are_given_a_data_frame_of_raw_columns(table):
    town = np.where(np.arange(600) % 3 > 0, "Bern", "Genève")
    gappy = table.assign(debt=table.debt.where(np.arange(600) % 7 > 0), town=town)
    steps = make_column_transformer(
        (OrdinalEncoder(), ["town"]), ("passthrough", COLUMNS), remainder="drop"
    )
    trees = HistGradientBoostingClassifier(max_iter=8)
    pipeline = make_pipeline(steps, trees).fit(gappy[[*COLUMNS, "town"]][:300], gappy["y"][:300])
    people = likewise.read(gappy[300:], label="y", protected=["group"], raw=True)
    given = []

    def score(rows):
        given.append((type(rows), tuple(rows.columns)))
        return pipeline.predict_proba(rows)[:, 1]

    results = [
        likewise.audit(
            model,
            people,
            map=likewise.Counterparts(may_matter=("age",)),
            pool=gappy[:300],
            settings=likewise.Settings(checks="core"),
        )
        for model in (score, OwnCode(pipeline), pipeline)
    ]
    assert set(given) == {(pd.DataFrame, ("income", "age", "debt", "town"))}
    found = [result.record.counterparts.traits[0].groups[0] for result in results]
    assert found[0].estimate != 1
    assert found == [found[2]] * 3


@pytest.mark.parametrize(("step", "left_out"), [(SimpleImputer(), 20), (StandardScaler(), 80)])
def test_only_gaps_that_a_pipeline_does_not_fill_leave_people_out(table, step, left_out):
    model = make_pipeline(step, LogisticRegression(max_iter=1000))
    model.fit(table[COLUMNS][:300], table["y"][:300])
    people = table[300:].reset_index(drop=True).astype({"y": float, "age": float})
    people.loc[:19, "y"] = np.nan
    people.loc[40:99, "age"] = np.nan
    columns = {"label": "y", "protected": ("group",), "drop_missing": True}
    said = likewise.rehearse(model, people, settings=CORE.changed(columns=columns))
    assert f"People: {300 - left_out} from" in said
    columns["drop_missing"] = False
    with pytest.raises(MissingValues, match=r"'y' \(20\)") as refused:
        likewise.rehearse(model, people, settings=CORE.changed(columns=columns))
    assert "--ignore" not in str(refused.value)
