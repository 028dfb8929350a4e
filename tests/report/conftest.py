"""A record with everything in it, made by hand, and the same with hostile text everywhere."""

import math
import shutil
import types

import pytest

from likewise.record import (
    CertificateRecord,
    CounterpartGroup,
    CounterpartsRecord,
    CounterpartTrait,
    DataRecord,
    DecidedBy,
    DeltaCurveRecord,
    FeatureShift,
    GroupRecord,
    HorizonRecord,
    Measure,
    MetricRecord,
    ModelRecord,
    Record,
    RefitRecord,
    SensitivityRecord,
    TestRecord,
    ToleranceRecord,
    WorstCase,
)
from likewise.report.verdict_words import sentence
from likewise.settings import Settings

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
DESK = {"width": 1280, "height": 900}
HOSTILE = "\"><script>alert('x')</script><img src=x onerror=alert(1)>{{ 7*7 }}🧨"
LEVELS = {"sex": ("Female", "Male"), "race": ("White", "non-White")}


def make_test(test="loss_ratio", method="Hall", estimate=1.62, lower=1.55, upper=1.71, **changes):
    outcome = "evidence_of_unfairness" if lower > 1.25 else "inconclusive"
    values = {
        "test": test,
        "map": "flow",
        "method": method,
        "estimate": estimate,
        "std_error": (upper - lower) / 3.3,
        "statistic": lower,
        "p_value": 0.00002,
        "rejected": lower > 1.25,
        "interval": (lower - 0.01, upper + 0.01),
        "lower_bound": lower,
        "upper_bound": upper,
        "capped_upper_bound": math.nan,
        "cap": math.nan,
        "delta": 1.25,
        "alpha": 0.05,
        "n": 9045,
        "outcome": outcome,
        "details": {"hill_index": 5.9, "top_share": 0.25},
    }
    return TestRecord.model_validate(values | changes)


def make_person(i):
    flips = i % 2 == 0
    return WorstCase(
        row=100 * (10 - i) + 7,
        label="<=50K",
        ratio=12.5 - i,
        loss_before=0.19,
        loss_after=0.19 * (12.5 - i),
        decision_before="<=50K",
        decision_after=">50K" if flips else "<=50K",
        probability_before=0.83,
        probability_after=0.09 if flips else 0.55 + 0.01 * i,
        fair_distance=0.001 * (1 + (i * 7) % 10),
        groups={"sex": LEVELS["sex"][i % 2], "race": LEVELS["race"][i % 3 == 0]},
        before={"age": 54, "education": "HS-grad", "hours": 40.0, "note": None},
        after={"age": 52 - i, "education": "HS-grad", "hours": 38.5, "note": None},
    )


def make_record(**changes):
    loss = make_test()
    errors = make_test("error_rate_ratio", "mid-P", 1.4, 1.31, 1.5, details={"both": 3.0})
    values = {
        "likewise_version": "0.1.0",
        "created": "2026-01-02T03:04:05+00:00",
        "outcome": loss.outcome,
        "sentence": sentence(loss),
        "trustworthy": True,
        "decided_by": DecidedBy(map="flow", test="loss_ratio", interval="hall", metric="fixed"),
        "tests": {"loss_ratio": loss, "error_rate_ratio": errors},
        "beside": (
            make_test(method="paper", lower=1.54),
            make_test(method="bootstrap-t", upper=math.inf),
            make_test(method="Hall", estimate=1.4, lower=1.2, upper=1.5, map="reach"),
        ),
        "rows": {"n": 9045, "moved": 9044, "diverged": 1, "undefined": 0, "below_one": 3},
        "certificate": CertificateRecord(
            method="exponential4, steps doubled",
            steps=16,
            evaluations=64,
            error_bound=0.0004,
            error_in_se=0.04,
            subsample=1000,
            cap_reached=False,
        ),
        "horizons": tuple(
            HorizonRecord(
                time=t,
                n=9045,
                loss_ratio=value,
                lower_bound=value - 0.05,
                error_rate_ratio=value - 0.1,
                error_rate_lower_bound=value - 0.2,
                band_lower=value - 0.08,
                band_upper=value + 0.08 if t < 10 else math.inf,
            )
            for t, value in ((2.5, 1.2), (5.0, 1.62), (10.0, 2.4))
        ),
        "refits": {
            "loss_ratio": RefitRecord(
                method="Hall; jackknife of 10 metric refits",
                replicates=(1.6, 1.7, 1.5),
                std_error_fixed=0.05,
                std_error_refitted=0.4,
                lower_bound=1.1,
                upper_bound=2.6,
                used=False,
            )
        },
        "diagnostics": {"mean_fair_distance": 0.0004, "free_only": 1.58},
        "distribution": {
            "shares": (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0),
            "quantiles": (0.9, 0.95, 1.0, 1.1, 1.3, 1.8, 4.0, 7.0, 12.5),
            "edges": tuple(0.9 * 1.4**i for i in range(9)),
            "counts": (4000.0, 3000.0, 1200.0, 600.0, 200.0, 40.0, 4.0, 1.0),
        },
        "groups": tuple(
            GroupRecord(
                trait=trait,
                group=level,
                n=5 if level == "non-White" else 4000,
                estimate=1.6 + 0.1 * i,
                std_error=0.04,
                lower=1.5 + 0.1 * i,
                upper=1.7 + 0.1 * i if level != "non-White" else math.inf,
                error_rate_before=0.1,
                error_rate_after=0.2,
                p_value=0.001,
                p_adjusted=0.004,
                rejected=True,
                small=level == "non-White",
            )
            for i, (trait, level) in enumerate(
                (trait, level) for trait, levels in LEVELS.items() for level in levels
            )
        ),
        "measures": (
            Measure(name="accuracy", value=0.81, lower=0.8, upper=0.82, n=9045),
            Measure(name="balanced_accuracy", value=0.83, lower=0.82, upper=0.84, n=9045),
            *(
                Measure(name=name, group=f"sex: {level}", value=0.4, lower=0.3, upper=0.5, n=4000)
                for level in LEVELS["sex"]
                for name in ("selection_rate", "impact_ratio", "average_odds_difference")
            ),
        ),
        "sensitivity": (
            SensitivityRecord(
                what="λ",
                change="100 instead of 50",
                n=2000,
                estimate=1.58,
                lower_bound=1.49,
                upper_bound=1.68,
                outcome="evidence_of_unfairness",
            ),
            SensitivityRecord(
                what="fair metric",
                change="first direction only",
                n=2000,
                estimate=1.22,
                lower_bound=1.19,
                upper_bound=1.26,
                outcome="inconclusive",
            ),
        ),
        "delta_curve": DeltaCurveRecord(
            unfair_below=1.55,
            tolerable_from=1.76,
            points=tuple(
                ToleranceRecord(delta=delta, p_value=p, outcome=outcome)
                for delta, p, outcome in (
                    (1.0, 0.0, "evidence_of_unfairness"),
                    (1.6, 0.3, "inconclusive"),
                    (2.0, 1.0, "within_tolerance"),
                )
            ),
        ),
        "worst": tuple(make_person(i) for i in range(10)),
        "shifts": (
            FeatureShift(feature="relationship=Wife", mean_absolute=0.5, mean=0.35),
            FeatureShift(feature="age", mean_absolute=0.2, mean=-0.1),
        ),
        "warnings": ("columns differ much in scale",),
        "skipped": ("second opinion",),
        "model": ModelRecord(
            kind="Sequential",
            task="classification",
            output="logits",
            classes=("<=50K", ">50K"),
            n_features=39,
            sha256="a" * 64,
        ),
        "data": DataRecord(
            source="people.parquet",
            n=9045,
            features=("age", "relationship=Wife"),
            label="income",
            classes={"<=50K": 6798, ">50K": 2247},
            protected={"sex": {"Male": 6136, "Female": 2909}},
            missing={"sex": 2},
            dropped={"age missing": 3},
            sha256="b" * 64,
        ),
        "metric": MetricRecord(
            kind="ProjectionMetric",
            learned=True,
            dimension=39,
            directions=({"relationship=Wife": -0.54, "age": 0.2},),
            origin={
                "source": "train.parquet",
                "n": 36177,
                "traits": [
                    {
                        "name": "sex",
                        "n": 36177,
                        "missing": 0,
                        "before": {"accuracy": 0.85, "auc": 0.94, "r2": None},
                        "after": {"accuracy": 0.6, "auc": 0.62, "r2": None},
                    }
                ],
            },
            sha256="c" * 64,
        ),
        "settings": Settings(),
        "settings_hash": Settings().hash,
        "command": "likewise audit model.safetensors people.parquet --label income",
        "versions": {"python": "3.11.7", "torch": "2.13.0"},
        "seconds": {"total": 47.5},
    }
    return Record.model_validate(values | changes)


def make_counterparts(**groups):
    """Return counterparts of one trait; a group has what a test wants otherwise."""
    usual = {"trait": "sex", "n": 400, "estimate": 1.4, "std_error": 0.02}
    usual |= {"lower_bound": 1.36, "upper_bound": 1.44, "certifying_bound": 1.46}
    usual |= {"interval": (1.35, 1.45), "adjusted_p_value": 0.004, "swap_p_value": 0.001}
    usual |= {"outcome": "evidence_of_unfairness"}
    made = [CounterpartGroup(**usual | {"group": name} | own) for name, own in groups.items()]
    worst = min(one.outcome for one in made)
    trait = CounterpartTrait(
        trait="sex",
        outcome=worst,
        pairs=300,
        overall=CounterpartGroup(**usual | {"outcome": None}),
        groups=tuple(made),
    )
    return CounterpartsRecord(
        may_matter=("age",),
        free=("district",),
        loss="loss",
        m=10,
        caliper=0.25,
        swaps=999,
        seed=0,
        pool="train.csv",
        pool_size=1000,
        pool_given=True,
        traits=(trait,),
    )


@pytest.fixture(scope="session")
def make():
    """What makes records, tests and persons, each with what a test wants otherwise."""
    return types.SimpleNamespace(
        record=make_record, test=make_test, person=make_person, counterparts=make_counterparts
    )


@pytest.fixture(scope="session")
def record():
    """A record in which nothing is missing."""
    return make_record()


@pytest.fixture(scope="session")
def bare(record):
    """A record in which everything that may be missing is."""
    empty = (
        *("beside", "horizons", "groups", "measures", "sensitivity", "worst", "shifts"),
        *("warnings", "skipped", "reasons"),
    )
    return record.model_copy(
        update=dict.fromkeys(empty, ())
        | {
            "certificate": None,
            "delta_curve": None,
            "refits": {},
            "diagnostics": {},
            "distribution": {},
            "command": "",
        }
        | {"metric": MetricRecord(kind="ProjectionMetric", learned=False, dimension=2, sha256="")}
    )


@pytest.fixture(scope="session")
def hostile(make):
    """A record with markup, quotes, emoji and very long text wherever text can be."""
    person = make.person(0).model_copy(
        update={
            "label": HOSTILE,
            "decision_before": HOSTILE,
            "groups": {HOSTILE: HOSTILE, "none": None},
            "before": {HOSTILE: HOSTILE, "long": "x" * 10_000, "y" * 10_000: 1, "none": None},
            "after": {HOSTILE: HOSTILE + "!", "long": "z" * 10_000, "y" * 10_000: 2, "none": 3},
        }
    )
    record = make.record()
    group = record.groups[0].model_copy(update={"trait": HOSTILE, "group": HOSTILE})
    return record.model_copy(
        update={
            "worst": (person,),
            "groups": (group,) * 3,
            "warnings": (HOSTILE,),
            "command": HOSTILE,
            "shifts": (record.shifts[0].model_copy(update={"feature": HOSTILE}),),
            "data": record.data.model_copy(
                update={
                    "source": HOSTILE,
                    "protected": {HOSTILE: {HOSTILE: 3}},
                    "dropped": {HOSTILE: 2},
                    "notes": (HOSTILE,),
                }
            ),
            "model": record.model.model_copy(update={"kind": HOSTILE}),
            "metric": record.metric.model_copy(update={"directions": ({HOSTILE: 0.5},)}),
        }
    )


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium; skips where it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open a page, and fail if it complains or asks anyone for anything."""
    complaints, contexts = [], []

    def open_page(html, *, viewport=DESK, **options):
        path = tmp_path / "report.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: request.url == path.as_uri() or complaints.append(request.url),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
