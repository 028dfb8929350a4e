"""One remedy tried: trained, audited, and noted so that a run that stopped can go on."""

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import InvalidData, LikewiseError, in_short
from likewise.files import make_folder, write_whole
from likewise.improving.remedies import Remedy
from likewise.maps.counterparts import Counterparts
from likewise.settings import Settings
from likewise.walk import AuditResult, audit


@dataclasses.dataclass(frozen=True)
class Tried:
    """How one remedy fared on the choosing quarter.

    Parameters
    ----------
    remedy
        In words.
    value, lower, upper
        The audit value of the worst served group, with its interval (not corrected for choosing).
    balanced_accuracy, seconds
        How good it is, and how long it took.
    stage
        0 for the first look on a part of the people, 1 for the whole.
    """

    remedy: str
    value: float
    lower: float
    upper: float
    balanced_accuracy: float
    seconds: float
    stage: int


@dataclasses.dataclass(frozen=True, eq=False)
class Trial:
    """Trains remedies and audits them."""

    train: Any
    label: str
    protected: tuple[str, ...]
    may_matter: tuple[str, ...]
    features: list[str]
    settings: Settings

    def fitted(self, remedy: Remedy, size: int) -> Any:
        """Return the remedy, fitted on the first people of the training part."""
        part = self.train.iloc[:size].reset_index(drop=True)
        traits = {name: part[name].to_numpy() for name in self.protected}
        try:
            return remedy.fit(part[self.features], part[self.label].to_numpy(), traits)
        except LikewiseError:
            raise
        except Exception as error:  # whatever the estimator of the user raises
            raise InvalidData(
                f"{remedy.words.capitalize()} cannot be trained on this table: {in_short(error)}."
            ) from None

    def audited(self, model: Any, people: Any) -> AuditResult:
        """Return the audit by counterparts from the training part."""
        return audit(
            model,
            people,
            pool=self.train,
            map=Counterparts(may_matter=self.may_matter, seed=self.settings.seed),
            settings=self.settings,
        )

    def __call__(self, remedy: Remedy, people: Any, size: int, stage: int) -> Tried:
        """Train on some people, audit on others, and say how it went."""
        began = time.perf_counter()
        model = self.fitted(remedy, size)
        found = self.audited(model, people)
        part = found.record.counterparts
        assert part is not None
        worst = part.worst_served()
        if not math.isfinite(worst.estimate):
            raise InvalidData(
                "Nobody has comparable people of other groups, alike in "
                f"{', '.join(self.may_matter)}, so that nothing can be compared. Let fewer columns "
                "matter."
            )
        return Tried(
            remedy.words,
            worst.estimate,
            *worst.interval,
            balanced_accuracy(found),
            time.perf_counter() - began,
            stage,
        )


def balanced_accuracy(result: AuditResult) -> float:
    """Return the mean over classes of the share decided rightly."""
    assert result.visits is not None
    y, wrong = (result.visits[name].to_numpy() for name in ("y", "wrong"))
    return float(np.mean([1 - wrong[y == one].mean() for one in np.unique(y)]))


@dataclasses.dataclass(frozen=True)
class TrialJournal:
    """What was tried already, so that a run that stopped goes on where it was."""

    folder: Path | None
    asked: str

    def known(self, remedy: str, stage: int) -> Tried | None:
        """Return what is known of a remedy at a stage."""
        return next((o for o in self._all() if (o.remedy, o.stage) == (remedy, stage)), None)

    def note(self, tried: Tried) -> None:
        """Write down how a remedy fared."""
        if self.folder is None:
            return
        make_folder(self.folder)
        entries = [dataclasses.asdict(one) for one in (*self._all(), tried)]
        text = json.dumps({"asked": self.asked, "tried": entries}, indent=1)
        write_whole(self.folder / "tried.json", text.encode())

    def _all(self) -> tuple[Tried, ...]:
        path = None if self.folder is None else self.folder / "tried.json"
        if path is None or not path.exists():
            return ()
        try:
            found = json.loads(path.read_text())
            if found["asked"] != self.asked:
                return ()
            return tuple(Tried(**one) for one in found["tried"])
        except (ValueError, TypeError, KeyError):
            return ()
