"""An audit in pieces gives the numbers of the audit in memory."""

import dataclasses
import math
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import likewise
from likewise.checks import ladder, streamed
from likewise.errors import CostWarning, InvalidSettings
from likewise.outcomes import Outcomes
from likewise.settings import Settings
from likewise.streaming import Means, audit_stream

PLAIN: dict[str, object] = {}
WEIGHTED = {"columns__weight": "w", "columns__ignore": ("household",)}
CLUSTERED = {"columns__cluster": "household", "columns__ignore": ("w",)}
BOTH = {"columns__weight": "w", "columns__cluster": "household", "columns__ignore": ()}
SMALL = Means(piece_rows=512)


def close(one, other, tolerance=1e-12):
    """Compare parts of two records: numbers to a relative tolerance, all else exactly."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            close(one[name], other[name], tolerance)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            close(a, b, tolerance)
    elif isinstance(one, float) and math.isfinite(one):
        assert one == pytest.approx(other, rel=tolerance, abs=tolerance)
    elif isinstance(one, float) and math.isnan(one):
        assert math.isnan(other)
    else:
        assert one == other


def both(world, settings, means=SMALL, **more):
    in_memory = likewise.audit(
        likewise.open_model(world.model),
        world.read(settings),
        metric=world.metric,
        settings=settings,
        threads=1,
    )
    record = audit_stream(
        world.model, world.files, metric=world.metric, settings=settings, means=means, **more
    )
    return in_memory, record


@pytest.mark.parametrize(
    ("design", "interval"),
    [
        (PLAIN, "hall"),
        (WEIGHTED, "hall"),
        (CLUSTERED, "paper"),
        (BOTH, "hall"),
        (PLAIN, "bootstrap_t"),
    ],
)
def test_verdicts_are_those_of_the_audit_in_memory(world, design, interval):
    settings = world.settings.changed(decide__interval=interval, **design)
    in_memory, record = both(world, settings)
    expected = in_memory.record
    for name, test in expected.tests.items():
        close(test.model_dump(), record.tests[name].model_dump())
        for field in ("estimate", "std_error"):
            close(getattr(test, field), getattr(record.tests[name], field))
    for one, other in zip(expected.beside, record.beside, strict=True):
        close(one.model_dump(), other.model_dump())
    for name in ("outcome", "sentence", "rows", "decided_by", "settings_hash", "model"):
        assert getattr(record, name) == getattr(expected, name)
    close(expected.shifts and [s.model_dump() for s in expected.shifts],
          [s.model_dump() for s in record.shifts])  # fmt: skip
    close([w.model_dump() for w in expected.worst], [w.model_dump() for w in record.worst])
    close(dict(expected.diagnostics), dict(record.diagnostics))
    assert len(record.horizons) == 4
    for one, other in zip(expected.horizons, record.horizons, strict=True):
        simulated = {"band_lower", "band_upper"}
        close(one.model_dump(exclude=simulated), other.model_dump(exclude=simulated))
        # Two simulations of a quantile, 50 000 draws each: 2 % of the width is 5 sd and more.
        close(one.band_lower, other.band_lower, 0.02 * (one.band_upper - one.band_lower))


@pytest.mark.parametrize("design", [PLAIN, WEIGHTED, CLUSTERED])
@pytest.mark.slow
def test_tables_by_group_are_those_of_the_audit_in_memory(world, design):
    in_memory, record = both(world, world.settings.changed(**design))
    expected = in_memory.record
    assert len(expected.groups) > 10
    assert len(expected.measures) > 20
    close([m.model_dump() for m in expected.measures], [m.model_dump() for m in record.measures])
    for one, other in zip(expected.groups, record.groups, strict=True):
        simulated = {"lower", "upper"}
        close(one.model_dump(exclude=simulated), other.model_dump(exclude=simulated), 1e-11)
        # Two simulations of a quantile, 50 000 draws each: 2 % of the width is 5 sd and more.
        width = one.upper - one.lower if math.isfinite(one.upper) else 1.0
        close(one.lower, other.lower, 0.02 * width)
    assert expected.data.protected == record.data.protected
    assert expected.data.missing == record.data.missing
    assert expected.data.classes == record.data.classes


def test_quantiles_are_within_one_per_cent_and_the_histogram_is_exact(world):
    in_memory, record = both(world, world.settings)
    expected = in_memory.record.distribution
    assert record.distribution["shares"] == expected["shares"]
    np.testing.assert_allclose(record.distribution["quantiles"], expected["quantiles"], rtol=0.01)
    close(expected["edges"], record.distribution["edges"])
    assert record.distribution["counts"] == expected["counts"]


def test_outcomes_on_disk_are_those_of_the_audit_in_memory_bit_for_bit(world, tmp_path):
    path = tmp_path / "outcomes.parquet"
    # Blocks of 4096 rows: one piece, so that blocks are the same.
    in_memory, _ = both(world, world.settings, Means(piece_rows=4096), outcomes=path)
    found = Outcomes.read(path)
    for name, column in in_memory.outcomes._columns().items():
        np.testing.assert_array_equal(column, found._columns()[name], err_msg=name)
    # Data are known by the bytes of their files here, and by their numbers there.
    assert {**found.about, "data": ""} == {**in_memory.outcomes.about, "data": ""}
    assert [path.name for path in tmp_path.iterdir()] == ["outcomes.parquet"]


@pytest.mark.slow
def test_a_regression_is_judged_alike(world, tmp_path):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    likewise.save_model(net, tmp_path / "line.safetensors")
    for k, path in enumerate(world.files):
        table = pq.read_table(path)
        value = pa.array(np.asarray(table["a"]) + np.asarray(table["b"]) + 0.3)
        place = table.column_names.index("y")
        pq.write_table(table.set_column(place, "y", value), tmp_path / f"part-{k}.parquet")
    for design in (PLAIN, WEIGHTED, CLUSTERED, {"cap": 1.5, "delta": 1.1}):
        other = dataclasses.replace(world, folder=tmp_path)
        settings = world.settings.changed(columns__output="values", **design)
        expected = likewise.audit(
            likewise.open_model(str(tmp_path / "line.safetensors")),
            other.read(settings),
            metric=world.metric,
            settings=settings,
            threads=1,
        ).record
        record = audit_stream(
            str(tmp_path / "line.safetensors"),
            other.files,
            metric=world.metric,
            settings=settings,
            means=SMALL,
        )
        assert set(record.tests) == {"mean_loss_ratio"}
        test = expected.tests["mean_loss_ratio"].model_dump()
        close(test, record.tests["mean_loss_ratio"].model_dump(), 1e-9)
        assert record.measures == ()
        for one, two in zip(expected.groups, record.groups, strict=True):
            close(one.estimate, two.estimate, 1e-11)
            close(one.std_error, two.std_error, 1e-9)


@pytest.mark.slow
def test_the_full_checks_rest_on_a_sample_and_the_record_says_so(world):
    settings = world.settings.changed(checks="full")
    record = audit_stream(
        world.model, world.files, metric=world.metric, settings=settings, means=SMALL
    )
    assert any("2000 people drawn at random" in text for text in record.skipped)
    assert record.sensitivity
    assert record.rows["n"] == 3000
    assert record.tests["loss_ratio"].n == 3000


def test_a_flow_that_is_not_solved_well_enough_is_not_trusted(world, monkeypatch):
    certify = ladder.certify

    def capped(*args, **kwargs):
        flow, certificate = certify(*args, **kwargs)
        return flow, dataclasses.replace(certificate, cap_reached=True)

    monkeypatch.setattr(ladder, "certify", capped)
    in_memory, record = both(world, world.settings)
    assert record.certificate.cap_reached
    assert not record.trustworthy
    assert record.reasons == in_memory.record.reasons
    assert "the flow may still be off by" in record.reasons[0]


class Rounded(torch.nn.Module):
    """Probabilities to one digit: without a gradient anywhere."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 1.0, 0.5, 0.0]))

    def forward(self, x):
        p = torch.sigmoid(x @ self.weight.to(x)).mul(10).round().div(10)
        return torch.stack([1 - p, p], dim=1)


def test_where_the_flow_is_blind_a_search_on_a_sample_decides_nothing(world):
    settings = world.settings.changed(
        checks="full", decide__blinded="stronger", columns__output="probabilities"
    )
    record = audit_stream(
        Rounded(), world.files, metric=world.metric, settings=settings, means=SMALL
    )
    assert record.decided_by.map == "flow"
    assert record.tests["error_rate_ratio"].n == 3000
    assert not record.trustworthy
    assert "audit it with --map reach" in record.reasons[0]
    assert record.settings == settings.changed(map__name="flow")


def test_a_metric_learned_from_the_audited_people_is_recognised(world):
    own = likewise.sensitive_subspace(world.read())

    def audit(settings, metric=own):
        return audit_stream(world.model, world.files, metric=metric, settings=settings, means=SMALL)

    with pytest.raises(InvalidSettings, match="learned from these very 3000 people"):
        audit(world.settings.changed(checks="full"))
    fixed = audit(world.settings.changed(decide__metric="fixed"))
    assert fixed.metric.same_sample
    people = world.read()
    turned = likewise.sensitive_subspace(people.take(np.arange(len(people))[::-1]))
    assert not audit(world.settings, turned).metric.same_sample


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The flow and the search within reach disagree")
def test_few_people_are_judged_with_the_refits_of_the_audit_in_memory(world, monkeypatch):
    settings = world.settings.changed(checks="full")
    learned = dataclasses.replace(world, metric=likewise.sensitive_subspace(world.read()))
    monkeypatch.setattr(streamed, "CHECKED", 3000)
    monkeypatch.setattr("likewise.streaming.CHECKED", 3000)
    in_memory, record = both(learned, settings)
    assert record.decided_by.metric == "refitted"
    assert record.decided_by == in_memory.record.decided_by
    test = in_memory.record.tests["loss_ratio"].model_dump()
    close(test, record.tests["loss_ratio"].model_dump(), 1e-9)


@pytest.mark.parametrize("choice", [{"metric__crossfit": True}, {"metric__refits": 200}])
def test_learning_the_metric_again_is_refused_in_pieces(world, choice):
    settings = world.settings.changed(**choice)
    with pytest.raises(InvalidSettings, match="an audit in pieces never holds them together"):
        audit_stream(world.model, ["no such file"], metric=world.metric, settings=settings)


def test_rays_ports_are_announced_before_it_starts(world, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (likewise[ray])")

    def look(*args):
        raise InterruptedError("long before the end")

    monkeypatch.setattr("likewise.streaming.look", look)
    with pytest.warns(CostWarning, match="Ray opens ports"), pytest.raises(InterruptedError):
        audit_stream(
            world.model,
            world.files,
            metric=world.metric,
            settings=world.settings,
            means=Means(ray="local"),
        )


def test_all_processes_together_keep_to_the_calls_that_are_allowed():
    endpoint = likewise.models.Endpoint("http://127.0.0.1:9/predict", max_calls=100)
    assert Means(workers=3).share(endpoint).processes == 4
    assert Means().share("http://127.0.0.1:9/predict").processes == 1
    with pytest.raises(InvalidSettings, match=r"100 calls .* too few for 101 processes"):
        Means(workers=100).share(endpoint)
    with pytest.raises(InvalidSettings, match="Say it with --run ray"):
        Means(ray="auto").share(endpoint)


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """People one of whom has a value that no small sample holds, and a sample of 500 at most."""
    rng = np.random.default_rng(5)
    n = 3000
    sex = rng.choice(["f", "m"], n)
    sex[1234] = "x"
    age = rng.integers(20, 60, n)
    members = rng.integers(0, 2, n)
    members[2345] = 2
    frame = pd.DataFrame({"sex": sex, "age": age, "members": members})
    frame["y"] = (age + 15 * (sex == "m") - 10 * members + 8 * rng.normal(size=n) > 45).astype(int)
    folder = tmp_path_factory.mktemp("rare")
    frame.to_parquet(folder / "part-0.parquet")
    return frame, folder


def test_a_pipelines_columns_are_swapped_for_every_value_that_occurs(rare, monkeypatch):
    monkeypatch.setattr("likewise.checks.survey.SAMPLE", 500)
    frame, folder = rare
    columns = [("sex", OneHotEncoder(), ["sex"]), ("rest", "passthrough", ["age", "members"])]
    pipeline = make_pipeline(ColumnTransformer(columns), StandardScaler(), LogisticRegression())
    pipeline.fit(frame.drop(columns="y"), frame["y"])
    settings = Settings(checks="core", map="flips").changed(
        columns__label="y", columns__protected=("sex", "members"), columns__inputs=None
    )
    data = likewise.read(folder, label="y", protected=("sex", "members"), raw=True)
    metric = likewise.ignoring([1.0, 0.0, 0.0, 0.0, 0.0])
    expected = likewise.audit(pipeline, data, metric=metric, settings=settings, threads=1).record
    record = audit_stream(pipeline, [folder], metric=metric, settings=settings, means=SMALL)
    assert expected.decided_by.map == "flips"
    assert expected.tests["loss_ratio"].estimate > 1.5
    close(expected.tests["loss_ratio"].model_dump(), record.tests["loss_ratio"].model_dump())


@pytest.mark.parametrize("choice", [{"map": "flips"}, {"map__feasible": True}])
def test_values_that_occur_are_those_of_everyone(rare, tmp_path, choice, monkeypatch):
    monkeypatch.setattr("likewise.checks.survey.SAMPLE", 500)
    frame, _ = rare
    plain = frame.drop(columns="sex").assign(income=np.linspace(-1, 1, len(frame)))
    plain.to_parquet(tmp_path / "part-0.parquet")
    inputs = ["age", "members", "income"]
    model = LogisticRegression().fit(plain[inputs].to_numpy(), plain["y"])
    wide = plain[inputs].to_numpy() * [1, 3, 1]
    metric = likewise.ignoring([[0.0, 1.0, 0.0]]).with_reach(wide)
    settings = Settings(checks="core", map="reach").changed(
        columns__label="y", columns__protected=("members",), columns__inputs=inputs, **choice
    )
    data = likewise.read(tmp_path, label="y", protected="members", inputs=inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the scale of age
        expected = likewise.audit(model, data, metric=metric, settings=settings, threads=1).record
        record = audit_stream(model, [tmp_path], metric=metric, settings=settings, means=SMALL)
    assert expected.tests["loss_ratio"].estimate > 1.1
    close(expected.tests["loss_ratio"].model_dump(), record.tests["loss_ratio"].model_dump())
