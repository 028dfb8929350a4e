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
        What the states mean, once those gradients have been turned into displacements.
    rows
        What turns them: the rows of the first layer without their free part; ``None`` if the state
        holds displacements.
    scaled
        Whether gradients include the weights of a single output; if not, ``rows`` do.
    """

    network: Network
    rates: Float[Tensor, " r"]
    free: slice
    into: Float[Tensor, "m r"]
    back: Float[Tensor, "q m"]
    coordinates: Coordinates
    rows: Float[Tensor, "m d"] | None = None
    scaled: bool = True

    def lift(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        """Turn a state into a displacement."""
        if self.rows is not None:
            m = len(self.rows)
            state = torch.cat([state[:, :m] @ self.rows, state[:, m:]], dim=1)
        return self.coordinates.lift(state)


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
        rows=costly * factor[:, None],
        scaled=not single,
    )


@final
class NetworkField(FlowField):
    """The field for a plain network."""

    def __init__(self, way: Entrance, x0: Float[Tensor, "n d"], y: Shaped[Tensor, " n"]) -> None:
        self.way, self.x0 = way, x0
        self.target = way.network.target(y)
        self.rates, self.free = way.rates, way.free
        self.h0 = way.network.enter(x0)

    @override
    def start(self) -> Float[Tensor, "n r"]:
        return self.x0.new_zeros(len(self.rates), len(self.x0)).T

    @override
    def displacement(self, state: Float[Tensor, "n r"]) -> Float[Tensor, "n d"]:
        return self.way.lift(state)

    @override
    def nonlinear(self, x: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
        way, network = self.way, self.way.network
        h = torch.addmm(self.h0, way.into, x.T)
        if way.rows is None:
            slope = torch.empty_like(h)
            network.gradient(h, self.target, slope)
            return (way.back @ slope).T
        velocity = h.new_empty(len(way.rates), h.shape[1])
        slope, along = velocity[: len(h)], velocity[len(h) :]
        network.gradient(h, self.target, slope, scaled=way.scaled)
        torch.mm(way.back, slope, out=along)
        return velocity.T
