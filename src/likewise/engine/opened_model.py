"""How a worker comes by the model: it opens the file for itself, or was handed the object."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from likewise.errors import InvalidSettings
from likewise.models import Endpoint, as_model, open_model
from likewise.models.base import Model
from likewise.scale.executors import Executor


@dataclasses.dataclass(frozen=True, eq=False)
class ModelHandle:
    """The model as it was named or handed over, and what else is known of it.

    Parameters
    ----------
    given
        A model, or the name of its file, which every process opens for itself.
    trust
        Whether code in that file may be run.
    about
        What `as_model` is told: output, encoder, some rows of the table.
    ready
        The model of this process; it does not travel.
    """

    given: Any
    trust: bool = False
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ready: Model | None = None

    def open(self) -> Model:
        """Return the model, ready to be asked."""
        if self.ready is not None:
            return self.ready
        given = self.given
        if isinstance(given, str):
            given = open_model(given, trust=self.trust)
        return as_model(given, **self.about)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "ready": None}


def share_calls(model: Any, run: Executor) -> Any:
    """Divide the calls that an endpoint allows between this process and the workers."""
    if isinstance(model, str) and model.startswith(("http://", "https://")):
        model = Endpoint(model)
    if not isinstance(model, Endpoint):
        return model
    workers = getattr(run, "workers", None) if run.processes else 0
    if workers is None:
        raise InvalidSettings(
            "How many workers share the calls to the endpoint? Say it with --run processes:4, say."
        )
    return dataclasses.replace(model, processes=workers + 1)
