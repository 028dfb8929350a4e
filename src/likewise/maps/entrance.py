r"""The flow of a plain network, computed at the entrance of its first layer.

People enter a network only through :math:`h = Wx + b`. If a state s displaces them by a linear map,
it displaces h by one too, and the gradient with respect to s is that map's transpose times the
gradient with respect to h. No n × d matrix is touched on the way.
"""

import dataclasses
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Shaped
from typing_extensions import override

from likewise.maps.coordinates import Coordinates, ThinSplit
from likewise.maps.field import FlowField
from likewise.maps.passage import Ascent
from likewise.maps.settled_kinks import SettledKinks

SURELY = 1.05
"""How much larger the probability of the wrong class must be for the loss to be larger for sure."""


@final
@dataclasses.dataclass(frozen=True, eq=False)
class Entrance:
    r"""How the states of a solver enter a network, :math:`h = h_0 + Ds`, and what they mean.

    Parameters
    ----------
    network
        The network.
    rates, free
        As in `Coordinates`, for these states.
    into
        The matrix :math:`D`.
    back
        Its transpose, from gradients at the first layer to velocities of the state. If the state
        holds those gradients themselves, only its last rows, for the free coordinates.
    coordinates
        What the states mean, unless ``rows`` say so.
    rows
        Displacements that the numbers of a state stand for, if it holds gradients: the rows of the
        first layer without their free part, and the free directions.
    scaled
        Whether gradients include the weights of a single output; if not, ``back`` and ``rows`` do.
    """

    network: Ascent
    rates: Float[np.ndarray, " r"]
    free: slice
    into: Float[np.ndarray, "m r"]
    back: Float[np.ndarray, "q m"]
    coordinates: Coordinates
    rows: Float[np.ndarray, "r d"] | None = None
    scaled: bool = True

    @property
    def settles(self) -> bool:
        """Whether kinks of the first layer can be followed by `SettledKinks`."""
        two_classes = not self.scaled and self.network.loss.name == "cross_entropy"
        return two_classes and self.rows is not None and self.network.layers[1].activation == "relu"

    def lift(self, state: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n d"]:
        """Turn a state into a displacement."""
        return self.coordinates.lift(state) if self.rows is None else state @ self.rows


def entrance(network: Ascent, coordinates: Coordinates, widest: int = 2) -> Entrance:
    r"""Return how states in ``coordinates`` enter ``network``, by the shorter of two ways.

    What costs can be kept as a displacement v, or as weights a of the rows of the first layer:
    :math:`v = a^\top W P`, with the projection P away from the free directions. The second is
    as exact, and shorter where a layer is narrower than twice its input, or ``widest`` times if it
    has other merits; it needs a metric with one price, so that the penalty pulls on all weights
    alike.
    """
    m, d = network.layers[0].weight.shape
    into = coordinates.lower(network.layers[0].weight)
    single = len(network.layers) == 2 and len(network.layers[1].bias) == 1
    factor = network.layers[1].weight[0] if single else np.ones(m, dtype=into.dtype)
    if not isinstance(coordinates, ThinSplit) or m >= widest * d:
        rates, free = coordinates.rates, coordinates.free
        back = np.ascontiguousarray(into.T * factor)
        return Entrance(network, rates, free, into, back, coordinates, scaled=not single)
    costly, along = into[:, :d], into[:, d:]
    return Entrance(
        network,
        rates=np.concatenate([np.repeat(coordinates.rates[:1], m), coordinates.rates[d:]]),
        free=slice(m, None),
        into=np.hstack([costly @ costly.T * factor, along]),
        back=along.T * factor,
        coordinates=coordinates,
        rows=np.concatenate([costly * factor[:, None], coordinates.directions]),
        scaled=not single,
    )


@final
class NetworkField(FlowField):
    """The field for a plain network; ``settled`` if the kinks of its first layer are followed."""

    def __init__(
        self,
        way: Entrance,
        x0: Float[np.ndarray, "n d"],
        y: Shaped[np.ndarray, " n"],
        *,
        settled: bool = False,
    ) -> None:
        self.way, self.n = way, len(x0)
        self.rates, self.free = way.rates, way.free
        self.h0 = way.network.enter(x0)
        self.passage = way.network.passage(len(x0), y, scaled=way.scaled)
        self.slope = np.empty_like(self.h0) if way.rows is None else None
        self.width = len(self.h0)
        self.settled: SettledKinks | None = None
        if settled:
            own = np.diagonal(way.into[:, : self.width])
            self.settled = SettledKinks(self.passage, own, float(way.rates[0]), y)

    @override
    def start(self) -> Float[np.ndarray, "n r"]:
        return np.zeros((len(self.rates), self.n), dtype=self.rates.dtype).T

    @override
    def displacement(self, state: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n d"]:
        return self.way.lift(state)

    @override
    @np.errstate(over="ignore", invalid="ignore")
    def surely_risen(self, state: Float[np.ndarray, "n r"]) -> Bool[np.ndarray, " n"]:
        if len(self.passage.slope) > 1 or self.way.network.loss.name != "cross_entropy":
            return super().surely_risen(state)
        wrong = []  # the probability of the wrong class of two is the size of the slope
        for entry in (self.h0, self.way.into @ state.T + self.h0):
            np.copyto(self.passage.entry, entry)
            for call in self.passage.calls:
                call()
            wrong.append(np.abs(self.passage.slope[0]))
        return wrong[1] > SURELY * wrong[0]

    @override
    def nonlinear(self, x: Float[np.ndarray, "n r"], out: Float[np.ndarray, "n r"]) -> None:
        velocity, slope, entry = out.T, self.slope, self.passage.entry
        np.add(np.matmul(self.way.into, x.T, out=entry), self.h0, out=entry)
        if slope is not None:
            self.passage.gradient(slope)
            np.matmul(self.way.back, slope, out=velocity)
        else:
            slope, along = velocity[: self.width], velocity[self.width :]
            if self.settled is None:
                self.passage.gradient(slope)
            else:
                self.settled.gradient(x.T[: self.width], slope)
            np.matmul(self.way.back, slope, out=along)
