"""The worse of several maps."""

import dataclasses
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Shaped
from typing_extensions import override

from likewise.audit_data import AuditData
from likewise.errors import InvalidSettings
from likewise.maps.candidates import candidate_losses, worse
from likewise.maps.flow import GradientFlow
from likewise.maps.search import Reach
from likewise.maps.unfair_map import BoundMap, KnownPeople, Moved, UnfairMap, among
from likewise.metrics.fair_metric import FairMetric
from likewise.models.base import Model


@final
@dataclasses.dataclass(frozen=True)
class Worst(UnfairMap):
    """Everyone goes where the worst of several maps would take them; their own place counts too.

    *Validity.* A rule that picks by the loss alone among fixed maps is itself a fixed map.

    Parameters
    ----------
    maps
        The maps to choose from; by default the flow and the search within reach.
    """

    name: ClassVar[str] = "worst"
    claim: ClassVar[str] = "Each person is moved in several ways, and the worst place is kept."

    maps: tuple[UnfairMap, ...] = (GradientFlow(), Reach())
    keeps_start: bool = dataclasses.field(default=True, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.maps:
            raise InvalidSettings("The worst of no maps is nothing: name at least one.")

    @override
    def bind(self, model: Model, metric: FairMetric) -> BoundMap:
        return BoundWorst(model, tuple(map.bind(model, metric) for map in self.maps))

    @property
    @override
    def goes_by_metric(self) -> bool:  # type: ignore[override]
        return any(map.goes_by_metric for map in self.maps)

    @property
    @override
    def parts(self) -> tuple[UnfairMap, ...]:
        return self.maps

    @override
    def with_parts(self, parts: tuple[UnfairMap, ...]) -> "Worst":
        return Worst(parts)

    @override
    def knowing(self, known: KnownPeople) -> "Worst":
        return Worst(tuple(map.knowing(known) for map in self.maps))

    @override
    def under(self, metric: FairMetric) -> "Worst":
        return Worst(tuple(map.under(metric) for map in self.maps))

    @override
    def rough(self, metric: FairMetric) -> "Worst":
        return Worst(tuple(map.rough(metric) for map in self.maps))

    @override
    def without(self, direction: int) -> "Worst":
        return Worst(tuple(map.without(direction) for map in self.maps))


@final
@dataclasses.dataclass(frozen=True, eq=False)
class BoundWorst:
    """Several maps made ready for one model and one metric."""

    model: Model
    maps: tuple[BoundMap, ...]

    def among(self, people: AuditData) -> "BoundWorst":
        """Return the maps for some people, original columns and all."""
        everyone = np.arange(len(people))
        return BoundWorst(self.model, tuple(among(map, people, everyone) for map in self.maps))

    def __call__(self, x0: Float[np.ndarray, "n d"], y: Shaped[np.ndarray, " n"]) -> Moved:
        """Move a block of people. A row's result depends on that row alone."""
        moved = [map(x0, y) for map in self.maps]
        # A row that diverged in one map is reported as such, wherever the others took it.
        status = np.max([part.status for part in moved], axis=0)
        known = [np.isfinite(part.x) & np.isfinite(part.judged) for part in moved]
        shown, judged = (
            np.stack([x0, *(np.where(k, x, x0) for k, x in zip(known, places, strict=True))], 1)
            for places in ([part.x for part in moved], [part.judged for part in moved])
        )
        loss = candidate_losses(self.model, judged, y)
        place, moves = worse(loss[:, 0], loss)
        row = np.arange(len(x0))
        return Moved(
            x=np.where(moves[:, None], shown[row, place], x0),
            status=status,
            evaluations=sum(part.evaluations for part in moved) + len(moved) + 1,
            counted=np.where(moves[:, None], judged[row, place], x0),
        )
