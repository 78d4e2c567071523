"""Results and gradients of every feature against the fp64 reference."""

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402

import regard.torch  # noqa: E402

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
