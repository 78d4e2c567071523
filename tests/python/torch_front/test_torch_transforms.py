"""torch.func: grad, vmap and both together; second derivatives and forward mode are refused."""

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402
from torch.func import grad, hessian, jacrev, jvp, vmap  # noqa: E402

import regard.torch  # noqa: E402

pytestmark = pytest.mark.no_compiler

attention = regard.torch.attention
Q, K = cases.numbers(1, 3, 2, 9, 4, 16), cases.numbers(2, 3, 2, 11, 2, 16)
BIAS, SINK = cases.numbers(3, 1, 4, 9, 11), cases.numbers(4, 4)
OPTIONS = {
    "none": {},
    "causal, bias, sink": {"causal": True, "bias": BIAS, "sink": SINK},
    "lengths": {"lengths_k": cases.whole(3, 11)},
    "lengths of a list": {"lengths_k": [3, 11]},
    "bias of each sequence": {"bias": cases.numbers(5, 2, 1, 1, 11)},
}


def loss(q, k, **options):
    return attention(q, k, k, **options).square().sum()


def by_autograd(q, k, **options):
    leaves = [x.clone().requires_grad_() for x in (q, k)]
    return torch.autograd.grad(loss(*leaves, **options), leaves)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPTIONS)
def test_grad(name):
    got = grad(loss, argnums=(0, 1))(Q[0], K[0], **OPTIONS[name])
    assert all(map(torch.equal, got, by_autograd(Q[0], K[0], **OPTIONS[name])))


@pytest.mark.parametrize("name", OPTIONS)
def test_vmap_and_vmap_of_grad(name):
    options = OPTIONS[name]
    got = vmap(lambda q, k: attention(q, k, k, lse=True, **options))(Q, K)
    for one, other in zip(got, zip(*[attention(q, k, k, lse=True, **options) for q, k in zip(Q, K)])):
        close(one, torch.stack(other))
    got = vmap(grad(lambda q, k: loss(q, k, **options)), in_dims=(0, None))(Q, K[0])
    close(got, torch.stack([by_autograd(q, K[0], **options)[0] for q in Q]))


@pytest.mark.parametrize(("layout", "axes"), [("bhsd", (0, 2, 1, 3)), ("sbhd", (1, 0, 2, 3))])
def test_vmap_over_any_dimension_in_any_layout(layout, axes):
    k = K[0].permute(axes)

    def call(q):
        return attention(q, k, k, layout=layout)

    examples = [q.permute(axes) for q in Q]
    got = vmap(call, in_dims=2, out_dims=1)(torch.stack(examples, 2))
    close(got, torch.stack([call(q) for q in examples], 1))


def test_row_max():
    def largest(q, k):
        return attention(q, k, k, row_max=True)

    expected = torch.stack([largest(q, k)[1] for q, k in zip(Q, K)])
    assert torch.equal(vmap(largest)(Q, K)[1], expected)
    bias = BIAS.expand(3, 1, -1, -1, -1)  # one for each example
    both = vmap(lambda q, bias: attention(q, K[0], K[0], lse=True, bias=bias, row_max=True))(Q, bias)
    one = attention(Q[0], K[0], K[0], lse=True, bias=BIAS, row_max=True)
    assert all(torch.equal(several[0], single) for several, single in zip(both, one, strict=True))
    q = Q[0].clone().requires_grad_()
    o, row_max = largest(q, K[0])
    assert o.requires_grad and not row_max.requires_grad and torch.equal(row_max, expected[0])
    assert torch.equal(grad(lambda q: largest(q, K[0])[0].sum())(Q[0]), torch.autograd.grad(o.sum(), q)[0])
    with torch._subclasses.FakeTensorMode():
        o, row_max = largest(torch.empty(2, 9, 4, 16), torch.empty(2, 11, 2, 16))
    assert o.shape == (2, 9, 4, 16) and row_max.shape == (2, 4, 9) and row_max.dtype == torch.float32


def test_vmap_over_packed_sequences():
    q, k = Q.flatten(1, 2), K.flatten(1, 2)
    for kind in (list, tuple, torch.tensor):
        sequences = {"offsets_q": kind([0, 7, 18]), "offsets_k": kind([0, 9, 22]), "sq": 11, "sk": 13}
        got = vmap(lambda q, k: attention(q, k, k, **sequences))(q, k)  # noqa: B023
        close(got, torch.stack([attention(*each, each[1], **sequences) for each in zip(q, k)]))


def test_gradients_of_a_bias_for_each_example():
    def of_bias(q, bias, sink):
        return loss(q, K[0], bias=bias, sink=sink)

    got = vmap(grad(of_bias, argnums=(1, 2)), in_dims=(0, None, None))(Q, BIAS[0, 0], SINK)
    expected = [grad(of_bias, argnums=(1, 2))(q, BIAS[0, 0], SINK) for q in Q]
    for one, other in zip(got, zip(*expected)):
        close(one, torch.stack(other))


@pytest.mark.parametrize("shape", [(11,), (4, 9, 11), (2, 1, 1, 11)])
def test_gradients_of_a_bias_of_each_example(shape):
    biases = cases.numbers(6, 3, *shape)

    def of_bias(q, bias):
        return loss(q, K[0], bias=bias)

    expected = torch.stack([grad(of_bias, argnums=1)(q, bias) for q, bias in zip(Q, biases)])
    close(vmap(grad(of_bias, argnums=1))(Q, biases), expected)
    leaf = biases.clone().requires_grad_()
    close(torch.autograd.grad(vmap(of_bias)(Q, leaf).sum(), leaf)[0], expected)


def test_slopes_that_are_learned_are_refused_under_vmap():
    slopes = torch.rand(3, 4).requires_grad_()
    with pytest.raises(ValueError, match="alibi requires a gradient, and there is none for it"):
        vmap(lambda q, alibi: loss(q, K[0], alibi=alibi))(Q, slopes).sum().backward()


def test_options_that_are_none_are_none():
    close(vmap(lambda q: attention(q, q, q, bias=None, lengths_k=None))(Q), vmap(lambda q: attention(q, q, q))(Q))


@pytest.mark.parametrize("options", [{}, {"bias": cases.numbers(1, 9, 9)}])
def test_vmap_of_no_examples(options):
    def both(q):
        return attention(q, q, q, lse=True, **options), grad(lambda q: attention(q, q, q, **options).sum())(q)

    (o, lse), gradient = vmap(both)(Q[:0])
    assert o.shape == gradient.shape == (0, 2, 9, 4, 16) and lse.shape == (0, 2, 4, 9)


def test_batches_of_gradients_are_refused():
    q = Q[0].clone().requires_grad_()
    o = attention(q, K[0], K[0])
    with pytest.raises(NotImplementedError, match="is_grads_batched=True.*: use torch.func.vmap over torch.func.vjp"):
        torch.autograd.grad(o, q, cases.numbers(7, 3, *o.shape), is_grads_batched=True)


def test_jacobian():
    q, k = Q[0, :, :2, :1], K[0, :, :3, :1]
    got = jacrev(lambda q: attention(q, k, k).sum((0, 2, 3)))(q)
    assert got.shape == (2, *q.shape)
    close(got.sum(0), grad(lambda q: attention(q, k, k).sum())(q))


def test_dropout_under_vmap():
    q = torch.stack([Q[0]] * 2)

    def call(q):
        return attention(q, q, q, dropout=0.5)

    same, different = (vmap(call, randomness=randomness)(q) for randomness in ("same", "different"))
    assert torch.equal(*same) and not torch.equal(*different)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(call)(q)


def test_second_derivatives_are_refused():
    q = Q[0].clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(q, K[0]), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        grad(lambda q: grad(loss)(q, K[0]).sum())(Q[0])
    operated = torch.ops.regard.attention(q, K[0], K[0], [], [], [], "{}")[0]
    (first,) = torch.autograd.grad(operated.square().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        first.sum().backward()


def test_forward_mode_is_refused():
    with pytest.raises(NotImplementedError, match="no forward-mode"):
        hessian(lambda q: attention(q, K[0], K[0]).sum())(Q[0])
    with pytest.raises(NotImplementedError, match="no forward-mode"):
        jvp(lambda q: attention(q, K[0], K[0]), (Q[0],), (Q[0],))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(Q[0], Q[0])
        with pytest.raises(NotImplementedError, match="no forward-mode"):
            attention(dual, K[0], K[0])


def test_tensors_that_outlived_their_transform_are_those_within():
    kept = []
    grad(lambda q: kept.append(q * 2) or q.sum())(Q[0])
    assert not attention(kept[0], K[0], K[0], sink=SINK).requires_grad
    gradients = []
    for q in (kept[0], Q[0] * 2):
        leaf = SINK.clone().requires_grad_()
        attention(q, K[0], K[0], sink=leaf).sum().backward()
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)
