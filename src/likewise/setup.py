"""What every method starts from: the opened model, the people, and one look at all of them."""

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from likewise.audit_data import AuditData
from likewise.data.source import (
    PeopleSource,
    Source,
    TableSource,
    as_source,
    check_count,
    read_pool,
)
from likewise.data.survey import SAMPLE_SIZE, Survey
from likewise.errors import (
    InvalidSettings,
    LikewiseWarning,
    MissingValues,
    StatisticalWarning,
    nearest,
)
from likewise.files import TemporaryFolder
from likewise.handle import ModelHandle, adapt
from likewise.loss import as_loss
from likewise.method import MAX_ROWS
from likewise.models import as_model, open_model, takes_gaps, wants_columns
from likewise.models.base import Model, label_classes
from likewise.models.scored import ScoredTable
from likewise.session import Session
from likewise.settings import Settings
from likewise.settings.arguments import resolve_settings
from likewise.settings.choices import digest


@dataclasses.dataclass(frozen=True, eq=False)
class Setup:
    """Model and people, before a method is bound to them.

    The model is ``given`` as it was handed over or named, and ``opened`` in this process. Pool,
    metric, method and loss are those that were handed over, rather than named in the settings.
    """

    given: Any
    opened: Any
    source: Source
    survey: Survey
    settings: Settings
    session: Session
    pool: Any = None
    metric: Any = None
    method: Any = None
    loss: Any = None
    trust: bool = False

    def identity(self) -> dict[str, str | int]:
        """Return what finished work depends on, by name: other work cannot be continued."""
        card = as_model(self.opened, output=self.settings.columns.output).card
        address = getattr(self.given, "url", "")
        return {
            "settings": self.settings.hash,
            "model": card.fingerprint or f"{card.kind} {address}".strip(),
            "data": self.survey.fingerprint,
            "metric": "" if self.metric is None else digest(self.metric),
            "method": "" if self.method is None else digest(self.method),
            "loss": getattr(self.loss, "fingerprint", ""),
            "pool": "" if self.reference is None else self.reference.fingerprint(),
            "rows": int(self.session.keeps_rows or self.survey.n <= MAX_ROWS),
            **self.source.identity(),
        }

    @functools.cached_property
    def reference(self) -> AuditData | None:
        """The reference sample that was given, without whoever is audited."""
        if self.pool is None:
            return None
        wanted = ("label", "protected", "cluster", "id", "bins", "csv", "drop_missing")
        columns = self.settings.columns
        return read_pool(
            self.pool, self.source, **{name: getattr(columns, name) for name in wanted}
        )

    def drawn(self, size: int, stream: int) -> Int[np.ndarray, " m"]:
        """Return places in the survey's sample of people drawn at random; everyone if few."""
        count = len(self.survey.sample)
        if count <= size:
            return np.arange(count)
        rng = np.random.default_rng([self.settings.seed, stream])
        return np.sort(rng.choice(count, size, replace=False))

    def sample(self, size: int, stream: int) -> AuditData:
        """Return people drawn at random, as they were read."""
        return self.survey.sample.take(self.drawn(size, stream))

    def adapt(
        self, *, features: bool = True, units: bool | str = False
    ) -> tuple[Model, ModelHandle]:
        """Return the model made ready for these people, and how workers come by theirs.

        Without ``features`` it is asked about rows of tables alone; ``units`` as in `adapt`.
        """
        settings = self.settings
        wrapped, about = adapt(
            self.opened,
            self.survey.sample,
            attributes=tuple(self.survey.attributes),
            columns=settings.model.columns,
            encoded=features,
            units=units,
            output=settings.columns.output,
            loss=self.loss,
            threshold=settings.decide.threshold,
        )
        if wrapped.card.decisions and not isinstance(self.opened, ScoredTable):
            warnings.warn(
                f"The {wrapped.card.kind} gives no probabilities, so it is audited by its "
                "decisions: error rates (the 0-1 loss) decide. Scores only lead the search.",
                LikewiseWarning,
                stacklevel=2,
            )
        return wrapped, ModelHandle(self.given, self.trust, about, wrapped)

    @property
    def unlabelled(self) -> bool:
        """Whether people have no labels."""
        return self.settings.columns.label is None and not isinstance(self.source, PeopleSource)

    def classes(self, model: Model) -> tuple[Any, ...]:
        """Return the classes behind the labels, in the order of the model's outputs."""
        survey, settings = self.survey, self.settings
        if model.card.task == "regression":
            return ()
        if self.unlabelled:
            return model.card.classes or (0, 1)
        if len(survey.labels) == 1:
            warnings.warn(
                f"Everyone has the same label, {next(iter(survey.labels))!r}: error rates of "
                "another class cannot be seen. Is it the true outcome, of all people?",
                StatisticalWarning,
                stacklevel=2,
            )
        labels = np.array(list(survey.labels), dtype=survey.sample.y.dtype)
        return label_classes(labels, model.card, settings.columns.label_map)

    def favourable_place(self, task: str, classes: tuple[Any, ...]) -> int | None:
        """Return the place of the favourable decision among the model's, if one is named."""
        value = self.settings.decide.favourable
        if value is None:
            return None
        # A predicted number is above the threshold (decide.threshold), or not.
        names = ["", "above"] if task == "regression" else list(map(str, classes))
        if not value or value not in names:
            raise InvalidSettings(
                f"{value!r} is not a decision of this model, which decides among "
                f"{', '.join(filter(None, names))} (--favourable).{nearest(value, names)}"
            )
        return names.index(value)


def prepare(
    session: Session,
    model: Any,
    people: Any,
    settings: Settings | None = None,
    *,
    pool: Any = None,
    metric: Any = None,
    encoder: Any = None,
    trust: bool = False,
    **arguments: Any,
) -> Setup:
    """Open the model, find the people and look at all of them once.

    ``arguments`` are those of `likewise.audit` that settings hold, too.
    """
    settings, method = resolve_settings(settings, trust=trust, **arguments)
    given = arguments.get("loss")
    loss = settings.decide.loss if given is None else given
    if model is None:
        chosen = settings.decide
        model = ScoredTable(chosen.decision, chosen.score, chosen.threshold)
        if settings.method.name == "auto" and not settings.columns.may_matter:
            raise InvalidSettings(
                "A scored table is compared by matched pairs: name the columns that may matter "
                "(may_matter, --may-matter)."
            )
    opened = open_model(model, trust=trust) if isinstance(model, str) else model
    columns = settings.columns
    raw = encoder is None and not isinstance(people, AuditData)
    source = as_source(
        people,
        encoder=encoder,
        raw=raw and (bool(settings.model.columns) or wants_columns(opened, columns.output)),
        unlabelled=columns.label is None and bool(columns.may_matter),
        **columns.reading,
    )
    if session.executor.remote:  # a folder that all workers can read
        source = source.shared(Path(session.enter_context(TemporaryFolder())))
    how = (settings.seed, SAMPLE_SIZE, "reading people")
    try:  # everyone, before anybody is measured: a bad row is found now
        survey = session.survey(source, *how)
    except MissingValues:
        gappy = source.raw() if isinstance(source, TableSource) else None
        if gappy is None or not takes_gaps(opened):
            raise
        source, survey = gappy, session.survey(gappy, *how)
    check_count(survey.n, source.n_rows)
    source, loss = source.knowing(survey), None if loss is None else as_loss(loss, trust=trust)
    return Setup(
        model, opened, source, survey, settings, session, pool, metric, method, loss, trust
    )


@contextlib.contextmanager
def noted_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Yield the list of all warnings; the user is given them at the end, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LikewiseWarning)
        yield caught
    for message in {str(warning.message): warning.message for warning in caught}.values():
        warnings.warn(message, stacklevel=3)
