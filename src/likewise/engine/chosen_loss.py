"""What counts as being served badly: a loss, a wrong decision, or one that people do not want."""

import dataclasses
import math
from typing import Any

from likewise.engine.prepare import favourable_place
from likewise.errors import InvalidSettings
from likewise.maps.ask_visits import PersonLoss
from likewise.maps.decision_losses import UnfavourableDecision, WrongDecision
from likewise.models.base import Model
from likewise.settings import Settings

LOSS_WORDS = {
    "cross_entropy": "loss",
    "squared": "squared error",
    "absolute": "absolute error",
}


@dataclasses.dataclass(frozen=True)
class ChosenLoss:
    """What counts as being served badly.

    Parameters
    ----------
    name
        In words: ``loss``, ``error rate``, ``unfavourable decision``, …
    of_person
        From outputs and labels to one number a person.
    labelled
        Whether it needs labels.
    favourable, threshold
        The decision that people want, and from where on it is made.
    """

    name: str
    of_person: PersonLoss
    labelled: bool = True
    favourable: str = ""
    threshold: float = math.nan


def choose_loss(model: Model, classes: tuple[Any, ...], settings: Settings) -> ChosenLoss:
    """Return what counts as being served badly: the refusal of what people want, or the loss."""
    card, decide = model.card, settings.decide
    threshold = decide.threshold if card.task == "regression" else card.threshold
    if decide.favourable is not None:
        place, name = favourable_place(decide.favourable, card.task, classes)
        if card.task == "regression" and threshold is None:
            raise InvalidSettings(
                "From which value on does the model's number mean the favourable decision? Say it "
                "with --set decide.threshold=…"
            )
        limit = 0.5 if threshold is None else threshold
        if decide.threshold is None and place == 0:
            limit = 1 - limit  # the model's own is for class 1
        loss = UnfavourableDecision(card.output, place, limit)
        return ChosenLoss("unfavourable decision", loss, False, name, limit)
    if card.task == "classification" and (
        decide.test == "error_rate_ratio"
        or (decide.test == "auto" and (decide.threshold is not None or card.decisions))
    ):
        limit = 0.5 if threshold is None else threshold
        return ChosenLoss("error rate", WrongDecision(card.output, limit), threshold=limit)
    return ChosenLoss(LOSS_WORDS[model.loss.name], dataclasses.replace(model.loss, bounded=True))
