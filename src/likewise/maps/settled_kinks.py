r"""Kinks of a hidden layer that are followed, without stepping to and fro over them.

Where a ReLU comes alive and its own push takes it back, people follow the kink: the unit is on for
a share :math:`\theta` of the time, which solvers find by stepping across, to first order in the
step. But the penalty is fast, so the share settles at once. The unit's entry is
:math:`h = b + \kappa a`, where a is the weight of its own row in people's displacement, and
:math:`\dot a = \theta g - 2\lambda a` for the slope g of the loss. So h stays at zero for
:math:`\theta g = -2\lambda b/\kappa`, as long as that is between 0 and g: what all others push a
unit to, b, says for which share it is on, and the field does not jump there. It still does at
units that push themselves on. The error is of the order :math:`1/\lambda`, however short the steps.
"""

from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from likewise.maps.passage import Passage

STEEP = 1e30
"""How fast a unit that pushes itself on is fully on, above zero."""


@final
class SettledKinks:
    """The gradient at the first layer of a network with one output and two classes.

    Parameters
    ----------
    passage
        The way of some people through the network.
    own
        What a weight of each unit's own row adds to its entry.
    rate
        The rate at which the penalty pulls people back.
    y
        Labels, 0 and 1.
    """

    def __init__(
        self,
        passage: Passage,
        own: Float[np.ndarray, " m"],
        rate: float,
        y: Shaped[np.ndarray, " n"],
    ) -> None:
        self.passage = passage
        # The slope of the loss has one sign wherever people go: that of the other class.
        sign = np.array([1, -1], dtype=own.dtype)
        held = own[:, None] * sign < 0
        settling = rate / np.maximum(np.abs(own), rate / STEEP)
        steepness = sign * np.where(held, settling[:, None], STEEP)
        self.own = np.where(held, own[:, None], 0).astype(own.dtype).take(y, axis=1)
        self.steepness = steepness.astype(own.dtype).take(y, axis=1)
        self.room = np.empty_like(passage.entry)

    def gradient(self, weights: Float[np.ndarray, "m n"], out: Float[np.ndarray, "m n"]) -> None:
        """Write the gradient at the first layer's output to ``out``, given the weights of rows."""
        passage, share = self.passage, self.room
        np.subtract(passage.entry, np.multiply(self.own, weights, out=share), out=share)
        np.multiply(share, self.steepness, out=share)
        for call in passage.calls:
            call()
        np.maximum(share, np.minimum(passage.slope, 0), out=share)
        np.minimum(share, np.maximum(passage.slope, 0), out=out)
