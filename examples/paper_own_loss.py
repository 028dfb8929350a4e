"""The ICLR 2021 paper's test in one call, with a metric and a loss of your own. Needs torch."""

import torch

import likewise
from likewise.metrics import ignoring

torch.manual_seed(0)
x = torch.randn(400, 3)
y = (x[:, 0] + 0.5 * torch.randn(400) > 0).long()

network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
for _ in range(100):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(network(x), y).backward()
    optimiser.step()


def focal(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the focal loss, one number per row."""
    p = outputs.log_softmax(1).gather(1, y[:, None])[:, 0]
    return -((1 - p.exp()) ** 2) * p


# People who differ only in the second column count as similar.
metric = ignoring([[0.0, 1.0, 0.0]])
found = likewise.paper_test(network.eval(), x, y, metric=metric, loss=focal)
print(found)
print("largest ratio", found.ratios.max().round(3))
