import numpy as np
import pytest

from likewise.audit_data import AuditData
from likewise.errors import InvalidSettings
from likewise.metrics.learn import sensitive_subspace
from likewise.metrics.newton import Standardised, fit
from likewise.metrics.penalty import GRID, CrossValidation, choose_penalties
from likewise.metrics.stacked import Stack


def regressions(rng, n=300, d=4, kind="binary", m=1, strength=1.0):
    x = rng.normal(size=(n, d))
    scores = strength * x @ np.arange(1, d + 1)
    targets = []
    for _ in range(m):
        if kind == "number":
            targets.append((scores + rng.normal(size=n))[:, None])
        elif kind == "binary":
            targets.append((scores + rng.logistic(size=n) > 0).astype(float)[:, None])
        else:
            chances = np.column_stack([0 * scores, scores, -scores]) + rng.gumbel(size=(n, 3))
            targets.append(np.eye(3)[chances.argmax(axis=1)])
    weight = rng.exponential(size=(n, m)) * (rng.random((n, m)) < 0.9)
    return Stack(Standardised.of(x), np.stack(targets, axis=1), weight, kind)


@pytest.mark.parametrize("kind", ["binary", "classes", "number"])
@pytest.mark.parametrize("strength", [0.0, 3.0])  # 3: the shared curvature does not fit at all
def test_regressions_fitted_together_are_those_fitted_alone(rng, kind, strength):
    stack = regressions(rng, kind=kind, m=5, strength=strength)
    together = stack.fit(0.01)
    for j, theta in enumerate(together):
        weight = stack.weight[:, j]
        C = 1 / (0.01 * weight.sum())
        alone = fit(stack.columns, np.ascontiguousarray(stack.target[:, j]), weight, kind, C)
        # Both have a gradient below 1e-11, and the curvature is at least 0.01.
        np.testing.assert_allclose(theta, alone.theta, atol=1e-8)


@pytest.mark.parametrize("kind", ["binary", "classes", "number"])
def test_the_choice_is_the_one_standard_error_rule_written_out(rng, kind):
    stack = regressions(rng, kind=kind, strength=0.3)
    fold = np.arange(300) % 5
    chosen = choose_penalties([CrossValidation(stack, fold, np.arange(300))])
    target, weight = stack.target[:, 0], stack.weight[:, 0]
    means, errors = [], []
    for penalty in GRID:
        loss = np.empty(300)
        for f in range(5):
            kept = weight * (fold != f)
            fitted = fit(stack.columns, target, kept, kind, 1 / (penalty * kept.sum()))
            scores = fitted.scores(stack.columns)[fold == f]
            true = target[fold == f]
            if kind == "number":
                loss[fold == f] = 0.5 * (scores - true)[:, 0] ** 2
            elif kind == "binary":
                chance = 1 / (1 + np.exp(-scores))
                loss[fold == f] = -np.log(np.where(true == 1, chance, 1 - chance))[:, 0]
            else:
                chance = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
                loss[fold == f] = -np.log(chance[true == 1])
        mean = np.average(loss, weights=weight)
        means.append(mean)
        off = weight * (loss - mean)
        errors.append(np.sqrt(300 / 299 * (off**2).sum()) / weight.sum())
    lowest = next((i for i in range(1, 10) if means[i] >= means[i - 1]), 10) - 1
    limit = means[lowest] + errors[lowest]
    assert chosen[0] == next(g for g, mean in zip(GRID, means, strict=True) if mean <= limit)


def test_a_coin_gets_the_strongest_penalty_and_a_strong_trait_a_weak_one(rng):
    coin = regressions(rng, n=1000, strength=0.0)
    strong = regressions(rng, n=1000, strength=2.0)
    fold, unit = np.arange(1000) % 5, np.arange(1000)
    assert choose_penalties([CrossValidation(coin, fold, unit)]) == GRID[0]
    assert choose_penalties([CrossValidation(strong, fold, unit)]) < 0.1


def test_repeating_everyone_does_not_move_a_metric_with_a_penalty_a_person(rng):
    x = rng.normal(size=(200, 3))
    sex = x[:, 0] + rng.logistic(size=200) > 0

    def direction(times, **how):
        rows = np.tile(np.arange(200), times)
        data = AuditData.from_arrays(x[rows], sex[rows], {"sex": sex[rows]})
        return sensitive_subspace(data, groups=0, placebos=0, **how).directions[0]

    np.testing.assert_allclose(
        direction(1, penalty=0.1), direction(5, penalty=0.1), rtol=1e-7, atol=1e-9
    )
    assert np.abs(direction(1, C=0.05) - direction(5, C=0.05)).max() > 0.05


def test_traits_share_a_penalty_whatever_units_a_number_has(rng):
    x = rng.normal(size=(400, 4))
    sex = x[:, 0] + rng.logistic(size=400) > 0
    age = x[:, 1] + rng.normal(size=400)

    def chosen(scale):
        data = AuditData.from_arrays(x, sex, {"sex": sex, "age": scale * age})
        traits = sensitive_subspace(data, groups=0, placebos=0).origin.traits
        assert traits[0].penalty == traits[1].penalty
        return traits[0].penalty

    assert chosen(1.0) == chosen(1000.0)


def test_a_class_that_is_in_one_fold_only_is_no_obstacle(rng):
    stack = regressions(rng, n=100, kind="classes")
    target = np.eye(3)[np.where(np.arange(100) == 7, 2, np.arange(100) % 2)]
    stack = Stack(stack.columns, target[:, None], np.ones((100, 1)), "classes")
    fold = np.arange(100) % 5
    checked = CrossValidation(stack, fold, np.arange(100))
    assert (checked.judged[:, 0] == (fold != fold[7])).all()
    assert choose_penalties([checked])[0] in GRID


def test_a_huge_cluster_stays_in_one_fold_and_makes_the_choice_more_careful(rng):
    x = rng.normal(size=(300, 4))
    sex = x[:, 0] + rng.logistic(size=300) > 0
    cluster = np.where(np.arange(300) < 150, -1, np.arange(300))
    alone, crowded = (
        sensitive_subspace(
            AuditData.from_arrays(x, sex, {"sex": sex}, cluster=c), groups=0, placebos=0
        ).origin.traits[0]
        for c in (None, cluster)
    )
    assert crowded.penalty >= alone.penalty
    assert crowded.left_out.std_error > 0


def test_what_was_chosen_is_recorded(rng):
    x = rng.normal(size=(200, 3))
    data = AuditData.from_arrays(x, x[:, 0] > 0, {"sex": x[:, 0] + rng.normal(size=200) > 0})
    chosen = sensitive_subspace(data, groups=0, placebos=0).origin
    assert chosen.C is None
    assert "one standard error" in chosen.penalty
    assert chosen.traits[0].penalty in GRID
    given = sensitive_subspace(data, penalty=0.02, groups=0, placebos=0).origin
    assert (given.penalty, given.traits[0].penalty) == ("given", 0.02)
    paper = sensitive_subspace(data, C=1.0, groups=0, placebos=0).origin
    assert (paper.C, paper.traits[0].penalty) == (1.0, pytest.approx(1 / 200))
    with pytest.raises(InvalidSettings, match="not both"):
        sensitive_subspace(data, C=1.0, penalty=0.02)
    with pytest.raises(InvalidSettings, match="penalty must be a positive number, not -1"):
        sensitive_subspace(data, penalty=-1.0)
