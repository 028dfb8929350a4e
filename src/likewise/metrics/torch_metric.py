"""Fair metrics written in torch: their gradient is found by automatic differentiation."""

import abc

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from likewise.metrics.fair_metric import FairMetric


class TorchMetric(FairMetric):
    """A fair metric whose squared distance is made of torch operations.

    Only `squared_distance_torch` is to be written; its gradient comes from torch.
    """

    @abc.abstractmethod
    def squared_distance_torch(
        self, x: Float[Tensor, "n d"], x0: Float[Tensor, "n d"]
    ) -> Float[Tensor, " n"]:
        r"""Return :math:`d_x^2(x, x_0)`, row by row, from operations that torch differentiates."""

    @override
    def squared_distance(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, " n"]:
        with torch.no_grad():
            return self.squared_distance_torch(_tensor(x), _tensor(x0)).numpy()

    @override
    def gradient(
        self, x: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n d"]:
        at = _tensor(x).clone().requires_grad_()
        with torch.enable_grad():
            # Sum, never mean: a row's path must not depend on who shares its block.
            total = self.squared_distance_torch(at, _tensor(x0)).sum()
            (gradient,) = torch.autograd.grad(total, at)
        return gradient.numpy()


def _tensor(x: Float[np.ndarray, "n d"]) -> Float[Tensor, "n d"]:
    return torch.from_numpy(np.ascontiguousarray(x))
