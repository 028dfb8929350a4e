"""Audit a small torch network that predicts who earns more than 50 000 dollars (Adult).

The network sees neither sex nor race. The fair metric is learned from the training people: along
the directions that predict sex and race best, people count as alike.
"""

from pathlib import Path

import torch

import likewise

people = likewise.data.adult(seed=0)
x = torch.tensor(people.train.x, dtype=torch.float32)
y = torch.tensor(people.train.y == ">50K", dtype=torch.int64)

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(39, 50), torch.nn.ReLU(), torch.nn.Linear(50, 2))
optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
for _ in range(500):
    rows = torch.randint(len(x), (256,))
    loss = torch.nn.functional.cross_entropy(network(x[rows]), y[rows])
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

metric = likewise.sensitive_subspace(people.train)
print(metric)

model = likewise.as_model(network, classes=("<=50K", ">50K"))
settings = likewise.Settings(checks="core")
result = likewise.audit(model, people.test, metric=metric, settings=settings)

print(result.summary())
for person in result.worst(3):
    print(f"row {person.row}: {person.decision_before} → {person.decision_after}")
Path("adult.html").write_text(result.to_html(), encoding="utf-8")
