"""What others add, a map, a metric, a test or a check, has its own name, sentence and hash."""

import dataclasses
import sys
import types
from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import likewise
from likewise.engine.plan import Check, Finding
from likewise.engine.variants import Move, Variant
from likewise.errors import InvalidSettings
from likewise.inference.loss_ratio import LossRatioTest
from likewise.inference.ratio_test import RatioTest
from likewise.maps.unfair_map import Moved, UnfairMap
from likewise.metrics.fair_metric import FairMetric
from likewise.report.phrases import method
from likewise.settings import Settings

HERE = "outside_package"


@dataclasses.dataclass(frozen=True)
class Nudge(UnfairMap):
    """Everyone takes one step uphill along the free directions.

    Parameters
    ----------
    size
        Length of the step.
    """

    claim: ClassVar[str] = "Each person takes one step uphill."

    size: float = 0.1

    def bind(self, model, metric):
        free = metric.free

        def move(x0, y):
            uphill = model.loss_gradient(x0, y) @ free.T @ free
            length = np.maximum(np.linalg.norm(uphill, axis=1, keepdims=True), 1e-12)
            return Moved(x0 + self.size * uphill / length, np.zeros(len(x0), dtype=np.int64), 1)

        return move


@dataclasses.dataclass(frozen=True)
class CityBlocks(FairMetric):
    """City blocks, squared."""

    scale: float = 1.0

    def squared_distance(self, x, x0):
        return self.scale * np.abs(x - x0).sum(axis=1) ** 2

    def gradient(self, x, x0):
        length = np.abs(x - x0).sum(axis=1, keepdims=True)
        return 2 * self.scale * length * np.sign(x - x0)


@dataclasses.dataclass(frozen=True)
class Margin(RatioTest):
    """The loss ratio held against a margin."""

    name: ClassVar[str] = "margin"
    claim: ClassVar[str] = "the mean loss ratio, held against a margin,"

    margin: float = 2.0
    cap: float = 10.0

    def evidence(self, tally, rows=None):
        inner = LossRatioTest(self.delta, self.alpha, cap=self.cap).evidence(tally)
        return dataclasses.replace(inner, test=self.name)


@dataclasses.dataclass(frozen=True)
class Half(Check):
    """The value with a step half as long."""

    name: ClassVar[str] = "half"

    share: float = 0.5

    def variants(self, plan):
        shorter = dataclasses.replace(plan.map, size=self.share * plan.map.size)
        yield Variant("half", (Move(plan.metric, shorter),), (100, 3))

    def read(self, stats, plan, judgement):
        value = float(stats["half"].tally.ratio.ratio.plain.mean)
        return Finding({"diagnostics": {"half": value}})


@pytest.fixture(autouse=True)
def _package(monkeypatch):
    """Put the classes where a user's package would have them."""
    module = types.ModuleType(HERE)
    for cls in (Nudge, CityBlocks, Margin, Half):
        monkeypatch.setattr(cls, "__module__", HERE)
        setattr(module, cls.__qualname__, cls)
    monkeypatch.setitem(sys.modules, HERE, module)


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(800, 3))
    group = (x[:, 0] + 0.3 * rng.normal(size=800) > 0).astype(int)
    y = (x @ [1.0, 1.0, 0.5] + 0.5 * rng.normal(size=800) > 0).astype(int)
    people = likewise.AuditData.from_arrays(x[:400], y[:400], {"group": group[:400]})
    return LogisticRegression().fit(x[400:], y[400:]), people


def audit(world, settings=None, **how):
    settings = settings or Settings(checks="core").changed(metric__placebos=0)
    return likewise.audit(*world, settings=settings, trust=True, **how).record


def test_a_map_has_its_own_name_sentence_hash_and_refits(world):
    short, long = (audit(world, map=Nudge(size)) for size in (0.1, 0.2))
    assert short.decided_by.map == "Nudge"
    assert short.settings.map.model_dump() == {"name": f"{HERE}:Nudge", "size": 0.1}
    assert short.settings_hash != long.settings_hash
    assert short.tests["loss_ratio"].estimate < long.tests["loss_ratio"].estimate
    # Learned from the same people: the metric's own uncertainty decides, under this map too.
    assert short.decided_by.metric == "refitted"
    assert len(set(short.refits["loss_ratio"].replicates)) == 10
    assert "Each person takes one step uphill." in method(short)
    by_name = audit(world, short.settings)
    assert by_name.tests == short.tests
    assert by_name.settings_hash == short.settings_hash


def test_code_outside_needs_trust_and_parameters_are_those_of_the_class(world):
    settings = Settings(checks="core").changed(map=f"{HERE}:Nudge")
    with pytest.raises(InvalidSettings, match="trust"):
        likewise.audit(*world, settings=settings)
    with pytest.raises(InvalidSettings, match=r"has no parameter 'sise'.*Did you mean 'size'"):
        audit(world, settings.changed(map__sise=3))
    with pytest.raises(InvalidSettings, match="size is refused"):
        audit(world, settings.changed(map__size="long"))


def test_a_metric_has_its_own_name_and_hash(world):
    flow = likewise.GradientFlow(time=0.1, lam=1.0)
    found = [audit(world, metric=CityBlocks(scale), map=flow) for scale in (1.0, 50.0)]
    assert found[0].metric.kind == "CityBlocks"
    assert found[0].settings.metric.name == f"{HERE}:CityBlocks"
    assert found[0].settings.metric.params == {"scale": 1.0}
    assert found[0].settings_hash != found[1].settings_hash
    assert found[0].metric.sha256 != found[1].metric.sha256
    assert audit(world, found[0].settings).tests == found[0].tests


def test_a_test_has_its_own_name_and_sentence(world):
    metric = likewise.ignoring([[1.0, 0.0, 0.0]])
    record = audit(world, metric=metric, tests=[Margin(margin=3.0)])
    assert record.decided_by.test == "margin"
    assert "the mean loss ratio, held against a margin, is" in record.sentence
    assert record.settings.tests.run == (f"{HERE}:Margin",)
    assert record.settings.tests.params(f"{HERE}:Margin") == {"margin": 3.0}
    other = audit(world, metric=metric, tests=[Margin()])
    assert other.settings_hash != record.settings_hash
    assert audit(world, record.settings, metric=metric).tests == record.tests


def test_a_check_is_a_class_and_its_name(world):
    checks = {"run": [f"{HERE}:Half"], f"{HERE}:Half": {"share": 0.25}}
    settings = Settings(checks=checks).changed(metric__placebos=0)
    found = audit(world, settings, map=Nudge(0.4))
    assert 1 < found.diagnostics["half"] < found.tests["loss_ratio"].estimate


def test_a_check_outside_needs_trust_and_is_not_imported_before(world, tmp_path, monkeypatch):
    (tmp_path / "ran_unasked.py").write_text("raise RuntimeError('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for run in (["ran_unasked:Nope"], "full"):
        settings = Settings(checks={"run": run, "ran_unasked:Nope": {}})
        with pytest.raises(InvalidSettings, match="The check 'ran_unasked:Nope' runs code"):
            likewise.audit(*world, settings=settings)
        assert "ran_unasked" not in sys.modules


def test_a_name_that_stands_for_nothing_is_told_before_people_are_looked_at(world):
    model, _ = world
    for wrong in ({"map": "flwo"}, {"tests": ["los_ratio"]}, {"checks": ["grups"]}):
        with pytest.raises(InvalidSettings, match=r"There is no .* Did you mean"):
            likewise.audit(model, "nowhere.parquet", settings=Settings().changed(**wrong))
