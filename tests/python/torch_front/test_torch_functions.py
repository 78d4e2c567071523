"""score= and keep= with PyTorch tensors, forward and backward, against autograd of the formula."""

import pytest
import torch

import regard.torch


def formula(q, k, v, slope, table, doc):
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    i, j = torch.arange(q.shape[1])[:, None], torch.arange(k.shape[1])
    s = s - slope[:, None, None] * abs(j - i) + table[(i - j + 6).clamp(0, 12)]
    s = s.masked_fill(doc[:, None, :, None] != doc[:, None, None, :], -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v)


def test_gradients_are_those_of_the_formula():
    torch.manual_seed(3)
    inputs = [torch.randn(2, 21, 3, 8, requires_grad=True) for _ in range(3)]
    inputs += [torch.randn(3, requires_grad=True), torch.randn(13, requires_grad=True)]
    doc = torch.randint(0, 3, (2, 21))
    expected = formula(*inputs, doc)
    grad_o = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, inputs, grad_o)
    q, k, v, slope, table = inputs
    actual = regard.torch.attention(
        q,
        k,
        v,
        score="s - slope[h]*abs(kv-q) + table[q-kv+6]",
        keep="doc[b,q]==doc[b,kv]",
        tensors={"doc": doc, "table": table, "slope": slope},
    )
    torch.testing.assert_close(actual, expected)
    for found, exact in zip(torch.autograd.grad(actual, inputs, grad_o), gradients):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


def test_a_tensor_of_another_type_gets_its_gradient_in_it():
    q, k, v = (torch.randn(1, 5, 2, 8) for _ in range(3))
    scale = torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True)
    regard.torch.attention(q, k, v, score="s*c", tensors={"c": scale}).sum().backward()
    assert scale.grad.dtype == torch.bfloat16 and scale.grad.shape == ()


def test_a_mask_has_no_gradient():
    q, k, v = (torch.randn(1, 5, 2, 8) for _ in range(3))
    w = torch.randn(2, requires_grad=True)
    with pytest.raises(ValueError, match="only keep reads w, and a mask has no gradient; leave it out"):
        regard.torch.attention(q, k, v, keep="w[h]<9.0", tensors={"w": w}).sum().backward()


def test_messages_name_tensors_as_the_caller_does():
    q, k, v = (torch.randn(1, 5, 2, 8) for _ in range(3))
    w = torch.rand(2)
    freed = torch.rand(2)
    freed.untyped_storage().resize_(0)

    def call(q, w, attention=regard.torch.attention):
        return attention(q, k, v, score="s*w[h]", tensors={"w": w})

    with pytest.raises(ValueError, match=r"^w has shape \[2\] and its memory does not cover all of it"):
        call(q, freed)
    with pytest.raises(ValueError, match=r"^w requires a gradient, .*, or pass w.detach\(\)"):
        call(q, w.clone().requires_grad_(), regard.attention)
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(ValueError, match=r"^w has a tangent of forward-mode .*unpack_dual\(w\)"),
    ):
        call(q, torch.autograd.forward_ad.make_dual(w, w), regard.attention)
    of_other = torch.compile(call, backend="eager", fullgraph=True)
    with pytest.raises(
        Exception, match=r"tensors\['w'\] is on meta and q on cpu: all tensors of a call must be on one"
    ):
        of_other(q, w.to("meta"))
    with pytest.raises(TypeError, match=r"^tensors\['w'\] is of type ndarray; where PyTorch compiles, traces or"):
        torch.func.vmap(lambda q: call(q, w.numpy()))(q[None])
