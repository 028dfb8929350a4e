"""Methods and checks: what is measured to decide, and what is asked beyond the verdict."""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from likewise.probe import Probe
from likewise.verdict import Verdict

if TYPE_CHECKING:
    from likewise.audit_data import AuditData
    from likewise.data.source import Source
    from likewise.data.survey import Survey
    from likewise.settings import Settings


Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

Sums = Mapping[str, Any]
"""The sums of every probe, by its name."""

MAX_ROWS = 200_000
"""People whose rows a result holds; more are kept if asked for (``outcomes=``), in the store."""


class Method(abc.ABC):
    """How people are compared: matched pairs, gradient flow, reach, flip, or another package's.

    The fields of a dataclass are its parameters: settings name them, and results note them.
    """

    name: ClassVar[str]

    @abc.abstractmethod
    def bind(self, setup: Any) -> "BoundMethod":
        """Fit the method to a model and people, and check that they go together."""


class BoundMethod(abc.ABC):
    """A method made ready for one model and one set of people.

    ``kind`` is what checks ask for: ``matched_pairs``, ``perturbation``, or another package's.
    ``model``, ``classes``, ``performance`` (or `None`) and the number of ``clusters`` (or 0) are
    for the record.
    """

    kind: ClassVar[str]
    setup: Any
    settings: "Settings"
    people: "AuditData"
    model: Any
    handle: Any
    classes: tuple[Any, ...]
    performance: Any
    block_size: int

    @property
    def source(self) -> "Source":
        """Where the people are."""
        return self.setup.source

    @property
    def survey(self) -> "Survey":
        """What is known of all people."""
        return self.setup.survey

    @property
    def n(self) -> int:
        """How many people there are."""
        return self.survey.n

    @property
    @abc.abstractmethod
    def canary(self) -> Callable[[], Any]:
        """Asks the model about a few people: again at the end, to see whether it has changed."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the method."""

    @property
    @abc.abstractmethod
    def probes(self) -> Sequence[Probe]:
        """What decides: the primary probe first, then whatever the verdict needs beside it."""

    def follow_up(self, stats: Sums) -> Iterable[Probe]:
        """Return further probes that the verdict needs, now that these sums are known."""
        return ()

    @abc.abstractmethod
    def judge(self, stats: Sums) -> Verdict:
        """Return the verdict from the sums of all probes."""

    @abc.abstractmethod
    def describe(self) -> list[str]:
        """Return what would be done, line by line (``--dry-run``)."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check found.

    ``record`` holds parts of the record by field; tuples and dictionaries are added to those of
    other checks. ``skipped`` is what was left out, ``warnings`` are doubts about the result, and
    ``notes`` remarks on the data, in sentences.
    """

    record: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Check(abc.ABC):
    """A question beyond the verdict: it asks for further probes and reads their sums.

    It describes and never decides. ``methods`` are the kinds of method it is for (empty: all);
    its fields are its parameters.
    """

    name: ClassVar[str]
    methods: ClassVar[tuple[str, ...]] = ()
    default: ClassVar[bool] = True
    """Whether it belongs to the full checks, or runs only when it is named."""

    def probes(self, method: Any) -> Iterable[Probe]:
        """Return the probes it needs."""
        return ()

    def follow_up(self, stats: Sums, method: Any, verdict: Verdict) -> Iterable[Probe]:
        """Return further probes, now that the verdict is known; asked until there are none."""
        return ()

    @abc.abstractmethod
    def read(self, stats: Sums, method: Any, verdict: Verdict) -> Finding:
        """Return what the sums say."""
