"""What can be named in settings: built in, from installed packages, or ``package.module:Name``.

A new map, metric, test, check or kind of model is one file and one line here; other packages add
theirs by entry points of the same groups, ``likewise.maps`` and so on.
"""

import dataclasses
import functools
import importlib
import importlib.metadata
import re
from collections.abc import Mapping
from typing import Any

from likewise.errors import InvalidSettings, in_short, nearest

OUTSIDE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""How something outside is named: ``package.module:Name``."""


@dataclasses.dataclass(frozen=True)
class Registry:
    """The classes of one kind, by name.

    Parameters
    ----------
    kind
        What they are, in a word.
    built_in
        Where each one is, ``module:Class`` within this package; imported when it is needed.
    """

    kind: str
    built_in: Mapping[str, str]

    @property
    def group(self) -> str:
        """The group of entry points that adds to it."""
        return f"likewise.{self.kind}s"

    @functools.cached_property
    def installed(self) -> Mapping[str, importlib.metadata.EntryPoint]:
        """What installed packages add; a built-in name cannot be taken."""
        found = importlib.metadata.entry_points(group=self.group)
        return {point.name: point for point in found if point.name not in self.built_in}

    def names(self) -> tuple[str, ...]:
        """Return all names, those of other packages last."""
        return (*self.built_in, *sorted(self.installed))

    def find(self, name: str, *, trust: bool = False) -> Any:
        """Return the class that a name stands for.

        Parameters
        ----------
        trust
            Whether a module may be imported that is named as ``package.module:Name``.
        """
        if name in self.built_in:
            return _load(f"likewise.{self.built_in[name]}", self.kind)
        if name in self.installed:
            return _load(self.installed[name].value, self.kind)
        if not OUTSIDE.fullmatch(name):
            raise InvalidSettings(
                f"There is no {self.kind} {name!r} (there are: {', '.join(self.names())}; or "
                f"package.module:Name).{nearest(name, self.names())}"
            )
        if not trust:
            raise InvalidSettings(
                f"The {self.kind} {name!r} runs code of that module. If you trust it, say so "
                "(--trust, or trust=True)."
            )
        return _load(name, self.kind)

    def name_of(self, cls: type) -> str:
        """Return the name of a class: the one it is registered by, or where it is."""
        place = f"{cls.__module__}:{cls.__qualname__}"
        for name, home in self.built_in.items():
            if place == f"likewise.{home}":
                return name
        for name, point in self.installed.items():
            if place == point.value.replace(" ", ""):
                return name
        return place


def _load(place: str, kind: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except ImportError as error:
        raise InvalidSettings(
            f"The {kind} {place!r} cannot be imported: {in_short(error)}."
        ) from None
    except AttributeError:
        raise InvalidSettings(f"The module {module!r} has no {kind} {name!r}.") from None


MAPS = Registry(
    "map",
    {
        "flow": "maps.flow:GradientFlow",
        "reach": "maps.search:Reach",
        "flips": "maps.flips:Flips",
        "counterparts": "maps.counterparts:Counterparts",
        "worst": "maps.combine:Worst",
    },
)

METRICS = Registry(
    "metric",
    {
        "quadratic": "metrics.quadratic:QuadraticMetric",
        "projection": "metrics.quadratic:ProjectionMetric",
    },
)

CHECKS = Registry(
    "check",
    {
        "other_intervals": "checks.other_intervals:OtherIntervals",
        "horizons": "checks.horizon_ladder:Horizons",
        "reach_crosscheck": "checks.reach_crosscheck:ReachCrosscheck",
        "refits": "checks.metric_refits:Refits",
        "flow_beside": "checks.flow_beside:FlowBeside",
        "placebo": "checks.placebo_traits:Placebo",
        "groups": "checks.group_tables:Groups",
        "robust": "checks.robust_value:Robust",
        "sensitivity": "checks.sensitivity:Sensitivity",
        "columns": "checks.carrying_columns:CarryingColumns",
        "subgroups": "checks.worst_subgroups:Subgroups",
    },
)

TESTS = Registry(
    "test",
    {
        "loss_ratio": "inference.loss_ratio:LossRatioTest",
        "error_rate_ratio": "inference.error_rate_ratio:ErrorRateRatioTest",
        "mean_loss_ratio": "inference.mean_loss_ratio:MeanLossRatioTest",
    },
)
