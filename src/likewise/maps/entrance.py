r"""The flow of a plain network, computed at the entrance of its first layer.

People enter a network only through :math:`h = Wx + b`. If a state s displaces them by a linear map,
it displaces h by one too, and the gradient with respect to s is that map's transpose times the
gradient with respect to h. No n × d matrix is touched on the way.
"""

import dataclasses
from typing import final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from typing_extensions import override

from likewise.maps.coordinates import Coordinates, Split
from likewise.maps.field import FlowField
from likewise.maps.network import Network


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
        Whether gradients include the weights of a single output; if not, ``rows`` do.
    """

    network: Network
    rates: Float[Tensor, " r"]
    free: slice
    into: Float[Tensor, "m r"]
    back: Float[Tensor, "q m"]
    coordinates: Coordinates
    rows: Float[Tensor, "r d"] | None = None
    scaled: bool = True

    def lift(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        """Turn a state into a displacement."""
        return self.coordinates.lift(state) if self.rows is None else state @ self.rows


def entrance(network: Network, coordinates: Coordinates) -> Entrance:
    r"""Return how states in ``coordinates`` enter ``network``, by the shorter of two ways.

    What costs can be kept as a displacement v, or as weights a of the rows of the first layer:
    :math:`v = a^\top W P`, with the projection P away from the free directions. The second is
    as exact, and shorter where a layer is narrower than twice its input; it needs a metric with
    one price, so that the penalty pulls on all weights alike.
    """
    m, d = network.layers[0].weight.shape
    into = coordinates.lower(network.layers[0].weight)
    if not isinstance(coordinates, Split) or m >= 2 * d:
        rates, free, back = coordinates.rates, coordinates.free, into.T.contiguous()
        return Entrance(network, rates, free, into, back, coordinates)
    costly, along = into[:, :d], into[:, d:]
    single = len(network.layers) == 2 and len(network.layers[1].bias) == 1
    factor = network.layers[1].weight[0] if single else into.new_ones(m)
    return Entrance(
        network,
        rates=torch.cat([coordinates.rates[:1].expand(m), coordinates.rates[d:]]),
        free=slice(m, None),
        into=torch.cat([costly @ costly.T * factor, along], dim=1),
        back=along.T * factor,
        coordinates=coordinates,
        rows=torch.cat([costly * factor[:, None], coordinates.directions]),
        scaled=not single,
    )


@final
class NetworkField(FlowField):
    """The field for a plain network."""

    def __init__(self, way: Entrance, x0: Float[Tensor, "n d"], y: Shaped[Tensor, " n"]) -> None:
        self.way, self.n = way, len(x0)
        self.rates, self.free = way.rates, way.free
        self.h0 = way.network.enter(x0)
        self.passage = way.network.passage(len(x0), y, scaled=way.scaled)
        self.slope = torch.empty_like(self.h0) if way.rows is None else None
        self.width = len(self.h0)

    @override
    def start(self) -> Float[Tensor, "n r"]:
        return self.rates.new_zeros(len(self.rates), self.n).T

    @override
    def displacement(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        return self.way.lift(state)

    @override
    def nonlinear(self, x: Float[Tensor, "n r"], out: Float[Tensor, "n r"]) -> None:
        velocity, slope = out.T, self.slope
        torch.addmm(self.h0, self.way.into, x.T, out=self.passage.entry)
        if slope is not None:
            self.passage.gradient(slope)
            torch.mm(self.way.back, slope, out=velocity)
        else:
            slope, along = velocity[: self.width], velocity[self.width :]
            self.passage.gradient(slope)
            torch.mm(self.way.back, slope, out=along)
