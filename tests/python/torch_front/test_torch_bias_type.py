"""Biases and masks of float32 with 16-bit tensors: added as they are, as in PyTorch's own attention."""

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402

import regard.aiter  # noqa: E402
import regard.torch  # noqa: E402
from regard.torch.encoding import encode  # noqa: E402

theirs = torch.nn.functional.scaled_dot_product_attention
HALVES = (torch.bfloat16, torch.float16)
# Neighbouring values that 16 bits cannot distinguish, or cannot hold at all, and the weight of the second one.
PAIRS = {
    "bf16": (torch.bfloat16, [1000.0, 1001.0], 0.7310586),
    "fp16": (torch.float16, [-1e5, -1e5 + 1], 0.7310586),
    "beyond fp16": (torch.float16, [7e4, 7e4], 0.5),
}


def replaced(*arrays, **options):
    with regard.torch.replace_sdpa():
        return torch.nn.functional.scaled_dot_product_attention(*arrays, **options)


def attention(q, k, v, attn_mask):
    return regard.torch.attention(q, k, v, bias=attn_mask, layout="bhsd")


def of_aiter(q, k, v, attn_mask):
    return regard.aiter.flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), bias=attn_mask).transpose(1, 2)


def compiled(q, k, v, attn_mask):
    return torch.compile(regard.torch.sdpa, backend="aot_eager")(q, k, v, attn_mask)


FRONTS = {f.__name__: f for f in (regard.torch.sdpa, replaced, attention, of_aiter, compiled)}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("pair", PAIRS)
def test_neighbours_that_16_bits_do_not_tell_apart(front, pair):
    dtype, numbers, second = PAIRS[pair]
    mask = torch.tensor([numbers])
    q, k = torch.zeros(1, 1, 1, 8, dtype=dtype), torch.zeros(1, 1, 2, 8, dtype=dtype)
    v = torch.tensor([0.0, 1.0], dtype=dtype)[None, None, :, None].expand(-1, -1, -1, 8).contiguous()
    o = FRONTS[front](q, k, v, mask)
    assert o.dtype == dtype
    torch.testing.assert_close(o, theirs(q, k, v, mask))
    assert abs(o[0, 0, 0, 0].item() - second) < 2**-8


def errors(function, tensors, mask, grad_o):
    """The largest error of o and the gradients of q, k, v and the mask against fp64, relative to the largest number."""
    exact = [x.detach().double().requires_grad_() for x in (*tensors, mask)]
    right = theirs(*exact)
    expected = [right, *torch.autograd.grad(right, exact, grad_o.double())]
    leaves = [x.detach().clone().requires_grad_() for x in (*tensors, mask)]
    o = function(*leaves)
    got = [o, *torch.autograd.grad(o, leaves, grad_o)]
    assert [x.dtype for x in got] == [o.dtype, *(x.dtype for x in leaves)]
    return [((x.double() - y).abs().max() / y.abs().max()).item() for x, y in zip(got, expected)]


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("dtype", HALVES)
def test_alibi_as_a_mask_and_its_gradient_are_as_exact_as_pytorch_s(front, dtype):
    """Except for the rounding of o to 16 bits, from which backward computes its row sums."""
    q, k, v, grad_o = (cases.numbers(i, 1, 4, s, 32).to(dtype) for i, s in enumerate((70, 300, 300, 70)))
    mask = 2.0 ** -torch.arange(1.0, 5.0)[None, :, None, None] * torch.arange(3000.0, 3300.0)
    mask = mask.expand(-1, -1, 70, -1) + cases.numbers(5, 1, 4, 70, 300)
    ours, other = (errors(function, (q, k, v), mask, grad_o) for function in (FRONTS[front], theirs))
    for mine, their in zip(ours, other):
        assert mine < 1.5 * their + torch.finfo(dtype).eps / 2


def test_autocast_casts_a_mask_as_pytorch_does():
    mask, v = torch.tensor([[1000.0, 1001.0]]), torch.tensor([0.0, 1.0])[None, None, :, None].expand(-1, -1, -1, 8)
    with torch.autocast("cpu", torch.bfloat16):
        for front in (regard.torch.sdpa, replaced, attention, theirs):
            assert front(torch.zeros(1, 1, 1, 8), v * 0, v, mask)[0, 0, 0, 0] == 0.5


@pytest.mark.parametrize(
    ("of_query", "of_mask"), [("bfloat16", "float16"), ("float32", "float16"), ("float32", "float64")]
)
def test_other_masks_are_refused_here_and_there(of_query, of_mask):
    q, mask = torch.zeros(1, 1, 9, 8, dtype=getattr(torch, of_query)), torch.zeros(9, 9, dtype=getattr(torch, of_mask))
    with pytest.raises(ValueError, match=f"attn_mask is torch.{of_mask}; it must be"):
        regard.torch.sdpa(q, q, q, mask)
    with pytest.raises(ValueError, match="bias"):
        attention(q, q, q, mask)
    for front in (theirs, replaced):
        with pytest.raises(RuntimeError, match="Expected attn_mask dtype"):
            front(q, q, q, attn_mask=mask)


def test_the_operators_give_the_gradient_its_own_type():
    q, k, v = (x.bfloat16() for x in cases.inputs("odd")[:3])
    encoded = encode({"bias": cases.numbers(5, 9, 70).requires_grad_()})
    leaves = [x.requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(torch.ops.regard.attention.default, (*leaves, *encoded))


def test_positions_and_masks_of_models_keep_their_types():
    pytest.importorskip("transformers")
    from regard.torch.transformers.attention import attention_forward

    q, k = torch.zeros(1, 1, 1, 8).bfloat16(), torch.zeros(1, 1, 2, 8).bfloat16()
    v = torch.tensor([0.0, 1.0]).bfloat16()[None, None, :, None].expand(-1, -1, -1, 8)
    numbers = torch.tensor([[[[1000.0, 1001.0]]]])
    for given in (
        {"attention_mask": numbers},
        {"attention_mask": None, "position_bias": numbers},
        {"attention_mask": numbers.bfloat16(), "position_bias": numbers - numbers.bfloat16().float()},
    ):
        o, _ = attention_forward(torch.nn.Module(), q, k, v, is_causal=False, **given)
        assert abs(o[0, 0, 0, 0].item() - 0.7310586) < 2**-8
