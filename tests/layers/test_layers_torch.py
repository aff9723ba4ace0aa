"""The PyTorch layers: gradcheck, ragged batches, DataLoader workers, dual state, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from layer_cases import SIZES, batch, padded, plain, square, word

import gmlearn as gm

torch = pytest.importorskip("torch")


@pytest.fixture
def layers():
    import gmlearn.layers.torch as layers

    return layers


def tensors(arrays, dtype=None):
    return [torch.tensor(a, dtype=dtype or torch.float64, requires_grad=True) for a in arrays]


@pytest.mark.parametrize("kind", ["hinge", "likelihood"])
@pytest.mark.parametrize("form", ["list", "padded"])
def test_loss_and_gradient_of_a_ragged_batch(layers, kind, form):
    crfs, (unary, truths) = [word(n) for n in SIZES], batch()
    value, slopes, _ = plain(crfs, unary, truths, kind)
    given = tensors(unary) if form == "list" else tensors([padded(unary)])[0]
    found = layers.StructuredLoss(crfs, kind)(given, truths if form == "list" else padded(truths))
    found.backward()
    assert found.item() == pytest.approx(value, abs=1e-9)
    for k, expected in enumerate(slopes):
        slope = given[k].grad if form == "list" else given.grad[k]
        np.testing.assert_allclose(slope[: len(expected)], expected, atol=1e-9)


def test_gradcheck_of_losses_in_all_costs(layers):
    (unary,), (truth,) = batch((4,))
    loss = layers.StructuredLoss(square(), "likelihood", tol=1e-14)
    given = tensors([unary, np.array([0.1, 0.2, 0.3, 0.4]), -0.5 * np.ones((1, 3)), np.zeros(1)])

    def value(u, strength, beta, beta_max):
        return loss([u], [truth], costs=[{0: strength, 1: (beta, beta_max)}])

    assert torch.autograd.gradcheck(value, given, atol=1e-5)
    weighted = layers.StructuredLoss(word(4, "smooth"), "likelihood")
    given = tensors([unary, np.array(0.3)])
    assert torch.autograd.gradcheck(
        lambda u, w: weighted([u], [truth], weights={"smooth": w}), given
    )


def test_gradcheck_of_marginals(layers):
    unary = tensors([padded(batch()[0])])
    assert torch.autograd.gradcheck(layers.StructuredLayer([word(n) for n in SIZES]), unary)


def test_labels_without_gradients(layers):
    crfs, (unary, truths) = [word(n) for n in SIZES], batch()
    with torch.no_grad():
        labels = layers.StructuredLayer(crfs, "labels")(tensors(unary))
        value = layers.StructuredLoss(crfs)(tensors(unary), truths)
    assert not value.requires_grad
    for crf, u, found in zip(crfs, unary, labels):
        assert found.tolist() == gm.solve(crf.copy().add_unary(u)).labels.tolist()


def test_single_precision_in_single_precision_out(layers):
    unary, truths = batch()
    given = tensors(unary, torch.float32)
    value = layers.StructuredLoss([word(n) for n in SIZES])(given, truths)
    value.backward()
    assert value.dtype == torch.float32
    assert {u.grad.dtype for u in given} == {torch.float32}


class Inputs(torch.utils.data.Dataset):
    """Inputs (4, 5), labels and id of each sample."""

    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(n, 4, 5)).astype(np.float32)
        self.y = rng.integers(0, 3, (n, 4))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        return self.x[k], self.y[k], k


@pytest.mark.slow
def test_training_with_loader_workers_keeps_a_state_for_each_sample(layers):
    torch.manual_seed(0)
    net = torch.nn.Linear(5, 3)
    loss = layers.StructuredLoss([square()] * 6)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    workers = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "spawn"}
    loader = torch.utils.data.DataLoader(Inputs(6), batch_size=2, shuffle=True, **workers)
    totals = []
    for _ in range(6):
        total = 0.0
        for x, y, ids in loader:
            optimizer.zero_grad()
            value = loss(net(x), y, ids)
            value.backward()
            optimizer.step()
            total += value.item()
        totals.append(total)
    assert sorted(loss.host.kept) == list(range(6))
    assert totals[-1] < totals[0]


def test_costs_that_are_not_numbers_are_refused_with_sample_and_tensor(layers):
    unary, truths = batch()
    unary[1][2, 0] = np.nan
    with pytest.raises(ValueError, match=r"unary\[1\] \(sample id 1\): the cost of variable 2"):
        layers.StructuredLoss([word(n) for n in SIZES])(tensors(unary), truths)
