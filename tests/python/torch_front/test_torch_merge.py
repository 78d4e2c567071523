"""regard.torch.merge: its gradients, and its operators in graphs."""

import pytest

torch = pytest.importorskip("torch")
import regard.torch  # noqa: E402
from cached import numbers  # noqa: E402

merge = regard.torch.merge
EMPTY = -torch.inf


def plain(partial_o, partial_lse):
    """The formula. Empty parts are left out by a mask, as their O may be NaN."""
    lse = partial_lse.logsumexp(0)
    weights = torch.where(partial_lse == EMPTY, 0, (partial_lse - lse).exp()).transpose(-1, -2)[..., None]
    return torch.where(weights == 0, 0, weights * partial_o).sum(0), lse


def parts(packed=False, dtype=torch.float32):
    """Three parts; a row of one is empty and NaN, and a row of all."""
    rows = (3, 4) if packed else (3, 2, 4)
    o, lse = numbers(1, *rows, 2, 8).to(dtype), 3 * numbers(2, *rows[:-1], 2, 4)
    o[1, ..., 2, 0, :], lse[1, ..., 0, 2] = torch.nan, EMPTY
    o[:, ..., 3, 1, :], lse[:, ..., 1, 3] = torch.nan, EMPTY
    return o.requires_grad_(), lse.requires_grad_()


def gradients(of, leaves, loss):
    return torch.autograd.grad(loss(*of(*leaves)), leaves, allow_unused=True)


def of_both(o, lse):
    some = lse != EMPTY
    return (o * numbers(3, *o.shape).to(o)).sum() + (lse * numbers(4, *lse.shape).to(lse))[some].sum()


def of_lse(o, lse):
    return lse[lse != EMPTY].square().sum()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("loss", [of_both, of_lse])
def test_gradients_are_those_of_the_formula(packed, loss):
    leaves = parts(packed)
    found = gradients(merge, leaves, loss)
    doubles = [x.detach().double() for x in leaves]
    rows = doubles[1].logsumexp(0) != EMPTY
    # PyTorch's logsumexp has NaN gradients in rows of -inf alone: those rows are finite here, and count for nothing.
    doubles[1] = torch.where(rows, doubles[1], 0.0)
    doubles[0] = torch.where(rows.transpose(-1, -2)[..., None], doubles[0], 0.0)
    doubles = [x.requires_grad_() for x in doubles]

    def without(o, lse):
        o = torch.where(rows.transpose(-1, -2)[..., None], o, 0.0)
        return loss(o, torch.where(rows, lse, EMPTY))

    expected = gradients(plain, doubles, without)
    for one, other in zip(found, expected):
        if other is not None and one is not None:
            assert one.isfinite().all()
            torch.testing.assert_close(one.double(), other, rtol=2e-5, atol=2e-5)
    assert loss is of_lse or not any(x is None for x in found)


def test_empty_parts_have_no_gradients():
    o, lse = parts()
    results = merge(o, lse)
    assert (results[0][:, 3, 1] == 0).all() and (results[1][:, 1, 3] == EMPTY).all()
    grad_o, grad_lse = torch.autograd.grad(results, (o, lse), [torch.full_like(x, torch.inf) for x in results])
    assert (grad_o[:, :, 3, 1] == 0).all() and (grad_lse[:, :, 1, 3] == 0).all()
    assert (grad_o[1, :, 2, 0] == 0).all() and (grad_lse[1, :, 0, 2] == 0).all()


def test_gradients_of_attention_over_halves_are_those_of_one_call():
    leaves = [numbers(seed, 2, 9, heads, 16).requires_grad_() for seed, heads in ((1, 4), (2, 2), (3, 2))]

    def halves(q, k, v):
        some = slice(0, 4), slice(4, 9)
        return merge(*map(torch.stack, zip(*[regard.torch.attention(q, k[:, i], v[:, i], lse=True) for i in some])))

    found = gradients(halves, leaves, of_both)
    expected = gradients(lambda *of: regard.torch.attention(*of, lse=True), leaves, of_both)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_have_the_types_of_the_parts(dtype):
    leaves = parts(dtype=dtype)
    o, lse = merge(*leaves, out="fp32")
    assert o.dtype == lse.dtype == torch.float32
    expected = gradients(lambda o, lse: merge(o.float(), lse), leaves, of_both)
    for one, other, leaf in zip(gradients(lambda *of: merge(*of, out="fp32"), leaves, of_both), expected, leaves):
        assert one.dtype == leaf.dtype
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def test_second_derivatives():
    o, lse = numbers(1, 2, 3, 2, 8).requires_grad_(), numbers(2, 2, 2, 3).requires_grad_()

    def penalty(of):
        (grad,) = torch.autograd.grad(of(o, lse)[0].square().sum(), lse, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), (o, lse))

    for one, other in zip(penalty(merge), penalty(plain)):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_graphs_hold_operators():
    o, lse = (x.detach() for x in parts())
    expected = merge(o, lse)
    compiled = torch.compile(lambda o, lse: merge(o, lse), fullgraph=True, backend="aot_eager")
    mapped = torch.func.vmap(merge, in_dims=1)(o[:, :, None], lse[:, :, None])
    for found in (compiled(o, lse), [x[:, 0] for x in mapped]):
        assert all(torch.equal(one, other) for one, other in zip(found, expected))
    leaves = parts()
    for one, other in zip(gradients(compiled, leaves, of_both), gradients(merge, leaves, of_both)):
        torch.testing.assert_close(one, other)


def test_in_place():
    o, lse = (x.detach() for x in parts())
    expected = merge(o, lse)
    into = torch.compile(
        lambda o, lse, *more: merge(*more, out=o, lse=lse, accumulate=True), fullgraph=True, backend="aot_eager"
    )
    for change in (into, lambda o, lse, *more: merge(*more, out=o, lse=lse, accumulate=True)):
        first = o[0].clone(), lse[0].clone()
        versions = [x._version for x in first]
        found = change(*first, o[1:], lse[1:])
        assert [x._version for x in first] > versions
        for one, same, other in zip(found, first, expected):
            torch.testing.assert_close(one, other)
            torch.testing.assert_close(same, other)
    written = torch.empty_like(o[0])
    assert merge(o, lse, out=written)[0] is written and torch.equal(written, expected[0])


def test_refusals():
    o, lse = parts()
    with pytest.raises(NotImplementedError, match="accumulate changes o and lse in place, which autograd does not rec"):
        merge(o, lse, out=o[0].detach(), lse=lse[0].detach(), accumulate=True)
    with pytest.raises(ValueError, match="out is a tensor to write to, which a call that PyTorch differentiates"):
        merge(o, lse, out=torch.empty(2, 4, 2, 8))
    with pytest.raises(TypeError, match="partial_lse is of type list; regard.torch takes tensors"):
        merge(o, [1.0])
    with pytest.raises(ValueError, match=r"they must be \[parts, b, s, h, dv\] and \[parts, b, h, s\]"):
        merge(o, lse[0])
