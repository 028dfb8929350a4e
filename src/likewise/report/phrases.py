"""What a report says in words that an auditor can quote: claims, their limits, the method."""

from likewise.record import CounterpartsRecord, Record
from likewise.report.counterpart_words import alike, listed
from likewise.report.layout import number, percent
from likewise.report.words import map_numbers

HEADLINES = {
    "evidence_of_unfairness": "Evidence of unfairness",
    "within_tolerance": "Within tolerance",
    "inconclusive": "Inconclusive",
}

MEASURES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "decisions_changed": "Decisions that change with the move",
    "decisions_newly_wrong": "Decisions that become wrong",
    "decisions_newly_right": "Decisions that become right",
    "refused_before": "Favourable decision refused, before the move",
    "refused_after": "Favourable decision refused, after the move",
    "selection_rate": "Selection rate",
    "impact_ratio": "Impact ratio",
    "true_positive_rate": "True positive rate",
    "false_positive_rate": "False positive rate",
    "average_odds_difference": "Average odds difference",
    "distributionally_robust_fairness": "Rise of the mean loss when people move by little "
    "(distributionally robust fairness)",
}

DIAGNOSTICS = {
    "mean_fair_distance": "Mean fair distance moved (what the moves cost)",
    "free_only": "Loss ratio along free directions only (λ → ∞)",
    "reach": "Loss ratio within reach, by a search without gradients",
    "doubled_budget": "Share that twice as many model calls would add to the loss found",
    "theorem_a1_bound": "Bound of Theorem A.1 on a metric's error (of use only if small)",
    "hill_index": "Tail index of the loss ratios (Hill)",
    "top_share": "Share of the variance held by the top 1 % of people",
}

STATUSES = {
    "moved": "moved as intended",
    "diverged": "left all bounds on the way",
    "undefined": "without a ratio: the loss before is zero",
    "below_one": "whose loss fell with the move",
    "outside_observed_ranges": "moved to where a column is beyond all that were observed",
}

MAPS = {
    "flow": "gradient flow",
    "reach": "search within reach",
    "flips": "swap of the protected value",
    "worst": "worse of flow and search within reach",
    "counterparts": "comparison with real counterparts",
}

NOT_WHY = (
    "It does not say why, nor that anyone intended it, nor what the law makes of it. It is "
    "evidence for people to weigh."
)

SERVED_WORSE = (
    "Served worse means a larger loss: the model is further from the truth. Whether that is to a "
    "person's harm depends on what its decisions mean to them (say which one people want with "
    "--favourable)."
)


def plain(name: str) -> str:
    """Return a name of the record in words."""
    return name.replace("_", " ")


def tail_words(index: float) -> str:
    """Say what the tail index means for the intervals."""
    if index < 2:
        return "so heavy that the variance may not exist; rely on the error-rate ratio"
    if index < 3:
        return "heavy: bounds may be somewhat off; compare the bootstrap-t and the error rates"
    return "light enough for these intervals, which need three moments"


def not_said(record: Record) -> list[str]:
    """Return what the verdict does not say."""
    if record.counterparts is not None:
        return _not_said_by_counterparts(record.counterparts, record.outcome)
    limits = {
        "evidence_of_unfairness": NOT_WHY,
        "within_tolerance": "It does not say that nobody is treated unlike their like: it bounds "
        "an average, under this notion of similarity. Single people can fare far worse.",
        "inconclusive": "It does not say that the model passed. The data cannot tell on which "
        "side of the tolerance it is; more people would.",
    }
    if record.tests[record.decided_by.test].held_back:
        limits["inconclusive"] = (
            "It does not say that the model passed. The model is sensitive, but no more along the "
            "traits than along others that mean nothing: more people would not change that."
        )
    lam, time, _ = map_numbers(record)
    choices = (
        f"λ = {lam:g} and T = {time:g}"
        if record.decided_by.map == "flow"
        else f"the {MAPS.get(record.decided_by.map, record.decided_by.map)}"
    )
    lines = [
        limits[record.outcome],
        "It holds for this model, for people like those audited, and for one notion of who is "
        f"similar: the fair metric below. Another metric, or other choices than {choices}, "
        "may give another answer.",
        "It compares people with similar people. Differences between groups are another "
        "question; they are shown further down.",
        *([] if record.settings.decide.favourable else [SERVED_WORSE]),
    ]
    goes_by_metric = record.decided_by.map != "flips"
    if record.decided_by.metric == "fixed" and record.metric.learned and goes_by_metric:
        lines.append(_metric_caveat(record))
    tried = [s for s in record.sensitivity if s.change]
    if others := [s for s in tried if s.outcome != record.outcome]:
        first = others[0]
        lines.append(
            f"It does not hold for every choice: {len(others)} of {len(tried)} other "
            f"choices tried end otherwise ({first.what} {first.change}: "
            f"{HEADLINES.get(first.outcome, first.outcome).lower()}, for one)."
        )
    return lines


def _not_said_by_counterparts(part: CounterpartsRecord, outcome: str) -> list[str]:
    limits = {
        "evidence_of_unfairness": NOT_WHY,
        "within_tolerance": "It does not say that nobody is treated unlike their like: it bounds "
        "an average over each group. Single people can fare far worse.",
        "inconclusive": "It does not say that the model passed. The data cannot tell on which "
        "side of the tolerance it is; more people, or a larger pool, would.",
    }
    matter = listed(part.may_matter) or "nothing"
    return [
        limits[outcome],
        f"It holds for one choice of what may matter: {matter}. Whoever holds that another column "
        "is legitimate, or one of these is not, asks another question, and may get another answer.",
        "It is about associations, not causes. A model that predicts perfectly exceeds 1, too, "
        "wherever the free columns predict the true outcome and go with the trait among people "
        "who are alike in what may matter.",
        *([] if part.favourable else [SERVED_WORSE]),
    ]


def _metric_caveat(record: Record) -> str:
    refit = record.refits.get(record.decided_by.test)
    if refit is None:
        return (
            "The fair metric was itself learned from data. Its own uncertainty is not part of "
            "the interval."
        )
    crosses = refit.lower_bound <= record.settings.delta <= refit.upper_bound
    tail = " – too wide to decide by" if crosses else ""
    return (
        "The fair metric was itself learned from data, and the interval takes it as given. With "
        f"the metric's own uncertainty the bounds are {number(refit.lower_bound)} to "
        f"{number(refit.upper_bound)}{tail}."
    )


def method(record: Record) -> list[str]:
    """Return the method in a few quotable paragraphs."""
    settings, decided = record.settings, record.decided_by
    sure = percent(1 - settings.alpha)
    if record.counterparts is not None:
        return _method_of_counterparts(record.counterparts, settings.delta, settings.cap, sure)
    lam, time, budget = map_numbers(record)
    maps = {
        "flow": "Each person is moved along the gradient flow that raises their loss while paying "
        f"λ = {lam:g} times the squared fair distance, for the time "
        f"T = {time:g} (equations (6)–(8)).",
        "reach": "For each person, similar people within reach are searched without gradients, "
        f"{budget} places a person, and the worst is kept.",
        "flips": "Each person's protected value is swapped for every other value, and the worst "
        "is kept.",
        "worst": "Each person is moved along the gradient flow, similar people within reach are "
        "searched without gradients, and the worse of the two places is kept.",
    }
    tests = {
        "loss_ratio": "The statistic is the mean, over people, of the loss after the move divided "
        "by the loss before (equations (13)–(19)).",
        "error_rate_ratio": "The statistic is the error rate after the move divided by the error "
        "rate before (equations (20)–(22)).",
        "mean_loss_ratio": "The statistic is the mean loss after the move divided by the mean "
        "loss before.",
    }
    claim = record.tests[decided.test].claim or decided.test.replace("_", " ")
    statistic = tests.get(decided.test, f"The statistic is {claim}.")
    return [
        "The audit asks whether people who are alike, but for what must not matter, are treated "
        "alike by the model. Who is alike is said by a fair metric: directions in which people "
        "may differ at no distance are called free.",
        maps.get(decided.map, decided.claim or f"People are moved by the map {decided.map!r}."),
        f"{statistic} Evidence of unfairness is reported if the lower {sure} "
        f"bound exceeds the tolerance δ = {settings.delta:g}; within tolerance, if an upper "
        f"{sure} bound does not (for the loss ratio, with ratios capped at {settings.cap:g}); "
        f"otherwise the audit is inconclusive. {_promise(record)}",
        "This holds if the people are a random sample of those the model is meant for, if model, "
        "map and settings were fixed before these people were seen, and if the metric came from "
        "elsewhere or its uncertainty is part of the bounds. The settings' hash makes the choices "
        "checkable.",
        "The method is that of Maity, Xue, Yurochkin and Sun, Statistical inference for "
        "individual fairness, ICLR 2021, with intervals that hold for skewed ratios and few "
        "errors.",
    ]


def _promise(record: Record) -> str:
    """Say how often a model at the tolerance is accused by chance, as far as that is known."""
    test = record.tests[record.decided_by.test]
    # The score test, and designs, have sizes up to .065 at a level of .05.
    exceeds = any(word in test.method for word in ("score", "weighted", "clusters"))
    rate = percent((1.3 if exceeds else 1.0) * record.settings.alpha)
    if not record.trustworthy:
        return "How often a model at the tolerance would be accused by chance is not known here."
    learned = record.metric.learned and record.decided_by.metric == "fixed"
    if learned and record.decided_by.map != "flips":
        return (
            "At the tolerance under this very metric, a model is accused by chance in at most "
            f"about {rate} of samples; at the tolerance under the metric of everybody, of which "
            "this one is an estimate, far more often."
        )
    return f"At the tolerance, a model is accused by chance in at most about {rate} of samples."


def _method_of_counterparts(
    part: CounterpartsRecord, delta: float, cap: float, sure: str
) -> list[str]:
    return [
        "The audit asks whether people would be served worse with what comparable people of "
        "another group bring along than with what comparable people of their own group bring "
        "along. It is the paired test of housing and hiring studies, done to a model.",
        f"In the pool, people of two groups are paired, each once: {alike(part)}, "
        "categories equal and numbers at most "
        f"{part.caliper:g} standard deviations apart, the closest first. The {part.m} pairs "
        "nearest to a person visit them: the person keeps the columns that may matter and their "
        "own label, and takes all other columns of one member, then of the other.",
        "The statistic is the sum of the losses with members of another group over that with "
        "members of the own group. With several other groups the worst is chosen on one half of "
        "the visits and judged on the other half. Its standard error counts who was audited and "
        "who visited; a test that exchanges the members of pairs at random "
        f"({part.swaps} times) shows what chance does.",
        f"Evidence of unfairness is reported for a group if its lower {sure} bound exceeds "
        f"δ = {delta:g} and the swap test agrees, corrected for the number of groups and traits; "
        "within tolerance, if for every group a pessimistic upper bound "
        f"does not exceed δ (single people counted up to {cap:g}) and no column that may matter "
        "carries the finding; otherwise the audit is inconclusive.",
        "This holds if the people are a random sample of those the model is meant for, the model "
        "was not trained on the pool's members as they are paired here, and model, columns and "
        "settings were fixed before these people were seen.",
        "Audits that move people under a fair metric follow Maity, Xue, Yurochkin and Sun, "
        "Statistical inference for individual fairness, ICLR 2021.",
    ]
