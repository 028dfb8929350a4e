"""What a report says in words that an auditor can quote: claims, their limits, the method."""

from likewise.record import Record
from likewise.report.words import map_numbers, number, percent

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
    "theorem_a1_bound": "Bound of Theorem A.1 on a metric's error (of use only if small)",
    "hill_index": "Tail index of the loss ratios (Hill)",
    "top_share": "Share of the variance held by the top 1 % of people",
}

STATUSES = {
    "moved": "moved as intended",
    "diverged": "left all bounds on the way",
    "undefined": "without a ratio: the loss before is zero",
    "below_one": "whose loss fell with the move",
}

MAPS = {
    "flow": "gradient flow",
    "reach": "search within reach",
    "flips": "swap of the protected value",
    "worst": "worse of flow and search within reach",
}


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
    limits = {
        "evidence_of_unfairness": "It does not say why, nor that anyone intended it, nor what the "
        "law makes of it. It is evidence for people to weigh.",
        "within_tolerance": "It does not say that nobody is treated unlike their like: it bounds "
        "an average, under this notion of similarity. Single people can fare far worse.",
        "inconclusive": "It does not say that the model passed. The data cannot tell on which "
        "side of the tolerance it is; more people would.",
    }
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
    lam, time, budget = map_numbers(record)
    maps = {
        "flow": "Each person is moved along the gradient flow that raises their loss while paying "
        f"λ = {lam:g} times the squared fair distance, for the time "
        f"T = {time:g} (equations (6)–(8)).",
        "reach": "For each person, similar people within reach are searched without gradients, "
        f"{budget} model calls a person, and the worst is kept.",
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
        "otherwise the audit is inconclusive. At the tolerance, a model is accused by chance in "
        f"at most about {percent(settings.alpha)} of samples.",
        "This holds if the people are a random sample of those the model is meant for, if model, "
        "map and settings were fixed before these people were seen, and if the metric came from "
        "elsewhere or its uncertainty is part of the bounds. The settings' hash makes the choices "
        "checkable.",
        "The method is that of Maity, Xue, Yurochkin and Sun, Statistical inference for "
        "individual fairness, ICLR 2021, with intervals that hold for skewed ratios and few "
        "errors.",
    ]
