import copy

import numpy as np
import pytest
import torch
from torch import nn

import likewise
from helpers import people
from likewise.loss import probabilities
from likewise.models import as_model, check


def network(inputs: int = 4, outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs))


def test_a_network_is_read_with_its_weights_unless_a_hook_does_more(rng):
    model, x = as_model(network().double()), rng.normal(size=(5, 4))
    x.flags.writeable = False
    assert np.allclose(model(x)[::-1], model(x[::-1]), rtol=1e-13, atol=1e-14)
    assert len(model.network) == 2
    hooked = network()
    hooked[0].register_forward_hook(lambda module, given, out: 2 * out)
    assert as_model(hooked).network == ()
    assert as_model(nn.Sequential(nn.Linear(4, 3), nn.ELU(), nn.Linear(3, 2))).network == ()


def test_the_users_module_is_never_changed():
    module = network().train()
    module[0].weight.requires_grad_(False)
    module[3].bias.grad = torch.ones(2)
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    random_state = torch.get_rng_state()
    model = as_model(module)
    model.loss_gradient(np.ones((6, 4)), np.arange(6) % 2)
    assert torch.equal(torch.get_rng_state(), random_state)
    likewise.audit(module, people(), metric=likewise.metrics.ignoring(np.eye(4)[:1]), checks="core")
    assert all(part.training for part in module.modules())
    assert [p.requires_grad for p in module.parameters()] == [False, True, True, True]
    assert module[0].weight.grad is None
    assert torch.equal(module[3].bias.grad, torch.ones(2))
    assert len(module._forward_hooks) == 1
    for name, value in module.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])
    assert calls  # a hook is part of what the module does, so the copy runs it


def test_a_module_that_was_left_with_history_can_be_copied():
    module = torch.nn.utils.weight_norm(nn.Linear(4, 2))
    module(torch.randn(3, 4))  # leaves a weight with a history behind
    x = torch.randn(3, 4)
    assert np.allclose(as_model(module)(x.double().numpy()), module(x).detach().numpy(), atol=1e-6)


def test_the_fingerprint_is_of_weights_and_structure():
    torch.manual_seed(0)
    module = network()
    same, other = copy.deepcopy(module), copy.deepcopy(module)
    with torch.no_grad():
        other[0].weight[0, 0] += 1e-6
    tanh = nn.Sequential(module[0], nn.Tanh(), module[2], module[3])
    prints = [as_model(m).card.fingerprint for m in (module, same, other, tanh)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def ending_in(last):
    return nn.Sequential(nn.Linear(4, 2 if isinstance(last, nn.Softmax) else 1), last)


@pytest.mark.parametrize("last", [nn.Softmax(dim=1), nn.Softmax(dim=-1), nn.Sigmoid()])
def test_a_final_softmax_or_sigmoid_is_cut_off_by_itself(last, rng):
    x, module = rng.normal(size=(50, 4)), ending_in(last).double()
    model = as_model(module)
    check(model, x)
    assert model.card.output == as_model(module, output="probabilities").card.output == "logits"
    p = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(probabilities(model(x), "logits")[:, -1], p[:, -1], atol=1e-12)
    # Probabilities this sure round to 1; logits keep the loss of everybody above zero.
    assert (model.loss(model(1e2 * x), np.ones(50, dtype=np.int64)) > 0).all()


def test_a_sigmoid_for_several_labels_and_a_hooked_module_keep_their_end():
    hooked = ending_in(nn.Sigmoid())
    hooked.register_forward_hook(lambda module, args, out: out * 0.5)
    for module in (nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()), hooked):
        assert as_model(module, output="probabilities").card.output == "probabilities"
