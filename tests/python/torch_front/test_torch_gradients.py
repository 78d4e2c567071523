"""Results and gradients of every feature against the fp64 reference."""

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402

import regard.torch  # noqa: E402

pytestmark = pytest.mark.no_compiler

# Every feature at a usual shape, and odd shapes with the features that depend on them.
MATRIX = [(name, "usual") for name in cases.FEATURES] + [
    ("causal", "odd"),
    ("bias of keys", "odd"),
    ("dropout", "odd"),
    ("window", "one row"),
    ("lengths", "one row"),
    ("causal", "more rows than keys"),
    ("sink", "more rows than keys"),
    ("plain", "d of 1"),
    ("bits", "d of 1"),
    ("ranges", "another dv"),
    ("softcap", "another dv"),
]


def leaf(tensor):
    return tensor.clone().requires_grad_()


def summed_to(tensor, shape):
    return tensor.sum_to_size(shape) if shape else tensor


def close(got, expected, tolerance=2e-5):
    torch.testing.assert_close(got.detach().double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("feature", "shape"), MATRIX)
def test_gradients_are_those_of_the_reference(feature, shape):
    *inputs, grad_o = cases.inputs(shape)
    sq, sk = inputs[0].shape[1], inputs[1].shape[1]
    options, said = cases.FEATURES[feature](sq, sk)
    q, k, v = map(leaf, inputs)
    options = {name: leaf(x) if name in ("bias", "sink") else x for name, x in options.items()}
    (o, *expected), grad_scores, grad_sink, lse = cases.expected([*inputs, grad_o], cases.oracle_options(sq, sk, said))

    got, got_lse = regard.torch.attention(q, k, v, lse=True, **options)
    got.backward(grad_o)
    close(got, o)
    seen = torch.isfinite(lse)
    if "lengths_q" not in options:
        assert torch.equal(torch.isfinite(got_lse), seen)
    close(got_lse.detach()[seen], lse[seen])
    for leaf_, grad in zip((q, k, v), expected):
        close(leaf_.grad, grad, 5e-5)
    if "bias" in options:
        close(options["bias"].grad, summed_to(grad_scores, options["bias"].shape), 5e-5)
    if "sink" in options:
        close(options["sink"].grad, torch.from_numpy(grad_sink), 5e-5)


@pytest.mark.parametrize("feature", cases.FEATURES)
def test_without_gradients_the_results_are_the_same(feature):
    *inputs, _ = cases.inputs("usual")
    sq, sk = inputs[0].shape[1], inputs[1].shape[1]
    options, _ = cases.FEATURES[feature](sq, sk)
    recorded = regard.torch.attention(*map(leaf, inputs), **options)
    assert recorded.requires_grad
    for leaves in (False, True):
        with torch.no_grad():
            given = map(leaf, inputs) if leaves else inputs
            got = regard.torch.attention(*given, **options)
        assert not got.requires_grad and torch.equal(got, recorded)


def of_scores(q, k, v, sink=None):
    """o and lse, in the order [b, s, h, d] and [b, h, s], of few PyTorch operators."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, 2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[3] ** 0.5
    logits = scores if sink is None else torch.cat((scores, sink[:, None, None].expand(*scores.shape[:3], 1)), 3)
    lse = logits.logsumexp(3)
    return torch.einsum("bhij,bjhd->bihd", (scores - lse[..., None]).exp(), v), lse


DEPENDS = {
    "o and lse": lambda o, lse: (o * o).sum() + (lse * lse).sum(),
    "lse alone": lambda o, lse: lse.sin().sum(),
    "a sum of lse": lambda o, lse: o.sum() + lse.sum(),
}
WAYS = {
    "eager": lambda loss, inputs: torch.autograd.grad(loss(*inputs), inputs),
    "recorded": lambda loss, inputs: torch.autograd.grad(loss(*inputs), inputs, create_graph=True),
    "torch.func": lambda loss, inputs: torch.func.grad(loss, tuple(range(len(inputs))))(*map(torch.detach, inputs)),
    "compiled": lambda loss, inputs: torch.autograd.grad(torch.compile(loss, backend="aot_eager")(*inputs), inputs),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("depends", DEPENDS)
def test_lse_has_a_gradient(depends, way):
    inputs = [leaf(x) for x in (*cases.inputs("usual")[:3], cases.numbers(1, 4))]
    exact = [leaf(x.detach().double()) for x in inputs]
    expected = torch.autograd.grad(DEPENDS[depends](*of_scores(*exact)), exact, allow_unused=True)

    def loss(q, k, v, sink):
        return DEPENDS[depends](*regard.torch.attention(q, k, v, lse=True, sink=sink))

    for gradient, reference in zip(WAYS[way](loss, inputs), expected):
        close(gradient, torch.zeros_like(gradient).double() if reference is None else reference, 5e-5)


def test_each_example_has_a_gradient_of_lse():
    q, k, v, _ = cases.inputs("usual")

    def loss(q):
        return regard.torch.attention(q[None], k[:1], v[:1], lse=True)[1].square().sum()

    gradients = torch.func.vmap(torch.func.grad(loss))(q)
    for example, gradient in zip(q, gradients):
        torch.testing.assert_close(gradient, torch.func.grad(loss)(example))
