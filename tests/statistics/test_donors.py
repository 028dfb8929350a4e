"""Sums over visited people: against loops, over blocks, and under exchanges of members."""

import numpy as np
import pytest
from scipy.special import ndtr

from likewise.statistics.donors import LOSSES, DonorDesign, Donors
from likewise.statistics.honest_worst import honest, inflation, pessimistic, sway
from likewise.statistics.swaps import _signs, swapped_sums
from likewise.statistics.visit_losses import VisitLosses

DESIGN = DonorDesign(groups=3, pairs=40, m=8, swaps=150, seed=5)


def losses(rng: np.random.Generator, n: int = 30, groups: int = 3, m: int = 8) -> VisitLosses:
    own = rng.integers(0, groups, n)
    everyone = np.arange(groups)
    other = np.array([everyone[everyone != g] for g in own])
    shape = (n, groups - 1, m)
    pair = rng.permuted(np.tile(np.arange(40), (n, groups - 1, 1)), axis=2)[:, :, :m]
    return VisitLosses(
        after=rng.exponential(size=shape),
        before=rng.exponential(size=shape),
        pair=pair,
        own=own,
        other=other,
        loss=rng.exponential(size=n),
        far=rng.random(n) < 0.3,
        weight=rng.exponential(size=n),
        cluster=np.arange(n) // 2,
        row=np.arange(n),
    )


def test_the_worst_group_is_chosen_on_one_half_and_judged_on_the_other(rng):
    block = losses(rng)
    found = honest(block.after, block.before)
    for i in range(len(block)):
        a, b = [], []
        for choose, judge in ((slice(0, 8, 2), slice(1, 8, 2)), (slice(1, 8, 2), slice(0, 8, 2))):
            gains = [
                block.after[i, h, choose].mean() - block.before[i, h, choose].mean() for h in (0, 1)
            ]
            h = int(np.argmax(gains))
            if gains[h] > 0:
                a.append(block.after[i, h, judge].mean())
                b.append(block.before[i, h, judge].mean())
            else:
                b.append(np.mean([block.before[i, h, judge].mean() for h in (0, 1)]))
                a.append(b[-1])
        assert found.after[i] == pytest.approx(np.mean(a), rel=1e-12)
        assert found.before[i] == pytest.approx(np.mean(b), rel=1e-12)


@pytest.mark.parametrize("rule", [honest, pessimistic])
def test_a_visit_touches_one_person_and_what_visits_add_sums_to_zero(rng, rule):
    block = losses(rng, 5)
    found = rule(block.after, block.before)
    for values, name in ((block.after, "after"), (block.before, "before")):
        bumped = values.copy()
        bumped[2, 1, 3] += 1e-7
        pieces = {"after": block.after, "before": block.before} | {name: bumped}
        moved = rule(pieces["after"], pieces["before"])
        change = (moved.after - found.after, moved.before - found.before)
        np.testing.assert_allclose(np.delete(change, 2, axis=1), 0, atol=1e-12)
    for part in (found.after_part, found.before_part):
        np.testing.assert_allclose(part.sum(axis=(1, 2)), 0, atol=1e-12)


def test_a_visit_sways_the_choice_by_the_derivative_of_its_probability(rng):
    gain = rng.normal(size=(3, 10))
    bump = 1e-6
    for i, r in ((0, 0), (1, 4), (2, 9)):
        moved = gain.copy()
        moved[i, r] += bump
        # The standard error is held: it says how sure the choice is, and is not chosen by.
        error = gain[i].std(ddof=1) / np.sqrt(10)
        change = ndtr(moved[i].mean() / error) - ndtr(gain[i].mean() / error)
        density = sway(gain)[i, r] / (gain[i, r] - gain[i].mean())
        assert density * bump == pytest.approx(change, rel=1e-4)
    assert not sway(np.ones((2, 10))).any()


def test_pessimistic_losses_are_never_below_the_yardstick(rng):
    block = losses(rng)
    found = pessimistic(block.after, block.before)
    gains = (block.after - block.before).mean(axis=2).max(axis=1)
    np.testing.assert_allclose(found.before, block.before.mean(axis=(1, 2)))
    np.testing.assert_allclose(found.after, found.before + np.maximum(gains, 0))


@pytest.mark.parametrize("groups", [2, 3])
def test_swapped_sums_are_those_of_exchanged_losses(rng, groups):
    block = losses(rng, 25, groups)
    found = swapped_sums(block.after, block.before, block.pair, block.weight, 150, seed=5)
    for swap in (0, 1, 127, 128, 149):
        word = swap // 64
        signs = _signs(np.arange(40), word, 5)[:, swap - 64 * word]
        kept = signs[block.pair] > 0
        a = np.where(kept, block.after, block.before)
        b = np.where(kept, block.before, block.after)
        truth = honest(a, b)
        expected = [block.weight @ truth.after, block.weight @ truth.before]
        # Signs are applied in single precision.
        np.testing.assert_allclose(found[swap], expected, rtol=1e-5)


def test_signs_are_fair_and_differ_between_swaps_pairs_and_seeds():
    one, two = _signs(np.arange(2000), 0, 0), _signs(np.arange(2000), 0, 1)
    assert set(np.unique(one)) == {-1.0, 1.0}
    # 256 000 signs: the mean has sd .002, correlations of 2000 signs have sd .022.
    assert abs(one.mean()) < 0.01
    for other in (two, np.roll(one, 1, axis=0), np.roll(one, 1, axis=1)):
        assert abs((one * other).mean()) < 0.01


def test_sums_of_blocks_are_the_sums_of_all(rng):
    block = losses(rng)
    whole = Donors.of(block, DESIGN)
    parts = [Donors.of(block.take(rows), DESIGN) for rows in np.split(np.arange(30), [4, 19])]
    total = parts[0] + parts[1] + parts[2]
    np.testing.assert_allclose(total.pair, whole.pair, atol=1e-12)
    np.testing.assert_allclose(total.swapped, whole.swapped, rtol=1e-6)
    for name, column in whole.person.items():
        # NumPy adds in another order for other shapes.
        np.testing.assert_allclose(total.person[name], column, rtol=1e-12)


def test_people_without_counterparts_keep_their_own_loss(rng):
    block = losses(rng)
    block.pair[block.own == 1] = -1
    found = Donors.of(block, DESIGN)
    mine = block.own == 1
    assert not found.person["visited"][mine].any()
    for name in LOSSES:
        np.testing.assert_array_equal(found.person[name][mine], block.loss[mine])
    assert not found.pair[1].any()
    np.testing.assert_allclose(found.swapped[1], block.weight[mine] @ block.loss[mine])


def test_the_visit_shown_is_the_one_that_harms_most(rng):
    block = losses(rng)
    found = Donors.of(block, DESIGN).person
    for i in range(len(block)):
        gap = block.after[i] - block.before[i]
        h, r = np.unravel_index(gap.argmax(), gap.shape)
        assert found["pair"][i] == block.pair[i, h, r]
        assert found["other"][i] == block.other[i, h]
        assert found["pair_after"][i] - found["pair_before"][i] == pytest.approx(gap.max())


def test_centred_parts_have_their_variance_restored(rng):
    # The mean of ten independent visits has variance 1/10; its centred parts show 9/10 of that.
    values = rng.normal(size=(4000, 1, 20))
    parts = pessimistic(np.zeros_like(values) - 100, values).before_part
    shown = np.square(parts).sum(axis=(1, 2)).mean() * inflation(20)[1]
    # Relative error of a variance from 4000 x 19 degrees: .005; four of them.
    assert shown == pytest.approx(1 / 20, rel=0.02)
