"""regard.torch.sdpa against PyTorch's own attention, whose arguments it takes."""

import inspect
import itertools

import pytest

torch = pytest.importorskip("torch")
import regard.torch  # noqa: E402
from regard.torch.taking import refusal  # noqa: E402

theirs = torch.nn.functional.scaled_dot_product_attention


def numbers(seed, *shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def seen(*shape):
    """Booleans; in some rows all are False."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.6
    return mask & (torch.arange(shape[-2]) % 5 != 2)[:, None]


def as_numbers(mask):
    return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf) + numbers(4, *mask.shape)


# Shapes of query, key, value (by its last dimension), and options.
CASES = {
    "plain": ((2, 3, 17, 16), (2, 3, 23, 16), 16, {}),
    "causal, more rows than keys": ((2, 3, 40, 7), (2, 3, 13, 7), 7, {"is_causal": True}),
    "causal, fewer": ((2, 3, 13, 7), (2, 3, 40, 7), 7, {"is_causal": True}),
    "one row": ((2, 3, 1, 16), (2, 3, 40, 16), 16, {"is_causal": True}),
    "scale, another dv": ((2, 3, 9, 16), (2, 3, 20, 16), 8, {"scale": 0.3}),
    "groups": ((2, 6, 9, 16), (2, 2, 20, 16), 16, {"enable_gqa": True, "is_causal": True}),
    "one head of keys": ((2, 4, 9, 16), (2, 1, 20, 16), 16, {}),
    "one head of queries": ((2, 1, 9, 16), (2, 4, 20, 16), 16, {}),
    "one sequence of keys": ((3, 4, 9, 16), (1, 4, 20, 16), 16, {}),
    "rank 2": ((9, 16), (20, 16), 16, {"is_causal": True}),
    "rank 3": ((4, 9, 16), (4, 20, 16), 16, {"attn_mask": seen(9, 20)}),
    "rank 5": ((2, 3, 4, 9, 16), (2, 3, 4, 20, 16), 16, {"attn_mask": seen(2, 1, 1, 9, 20)}),
    "rank 5, broadcast": ((2, 1, 4, 9, 16), (3, 4, 20, 16), 16, {"attn_mask": as_numbers(seen(9, 20))}),
    "booleans": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": seen(2, 4, 9, 45)}),
    "booleans for all": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": seen(9, 45)}),
    "booleans of keys": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": seen(2, 2, 45)[:, None, :1]}),
    "booleans of rows": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": seen(2, 1, 9, 1)}),
    "booleans and causal": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": seen(9, 45), "is_causal": True}),
    "numbers": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": as_numbers(seen(2, 4, 9, 45))}),
    "numbers for all": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": as_numbers(seen(9, 45))}),
    "numbers of keys": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": numbers(6, 2, 1, 1, 45)}),
    "numbers of rows": ((2, 4, 9, 16), (2, 4, 45, 16), 16, {"attn_mask": numbers(6, 2, 1, 9, 1)}),
    "no keys": ((2, 4, 9, 16), (2, 4, 0, 16), 16, {}),
    "no rows": ((2, 4, 0, 16), (2, 4, 9, 16), 16, {}),
    "no sequences": ((0, 4, 9, 16), (0, 4, 9, 16), 16, {}),
}


def in_memory(tensor, order):
    """The same numbers if heads and sequence, or even the last dimension, are swapped in memory."""
    if order == "bhsd" or tensor.dim() < 3:
        return tensor.contiguous()
    axes = (-2, -3) if order == "bshd" else (-1, -2)
    return tensor.transpose(*axes).contiguous().transpose(*axes)


def results(function, tensors, options, dtype):
    leaves = [x.to(dtype).requires_grad_() for x in tensors]
    options = dict(options)
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options["attn_mask"] = mask.to(dtype).requires_grad_()
        leaves.append(options["attn_mask"])
    o = function(*leaves[:3], **options)
    grads = torch.autograd.grad(o, leaves, numbers(9, *o.shape).to(dtype))
    return [o.detach(), *grads]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_pytorch(name):
    of_query, of_keys, dv, options = CASES[name]
    tensors = numbers(1, *of_query), numbers(2, *of_keys), numbers(3, *of_keys[:-1], dv)
    expected = results(theirs, tensors, options, torch.float64)
    for order in ("bhsd", "bshd", "bhds"):
        got = results(regard.torch.sdpa, [in_memory(x, order) for x in tensors], options, torch.float32)
        for ours, right in zip(got, expected):
            torch.testing.assert_close(ours.double(), right, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("of_mask", [torch.bfloat16, torch.float16, torch.float32])
def test_autocast_casts_the_mask(of_mask):
    q, mask = numbers(1, 2, 3, 33, 40), as_numbers(seen(33, 33)).to(of_mask)
    with torch.autocast("cpu", torch.bfloat16):
        got = regard.torch.sdpa(q, q, q, mask)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), theirs(*(x.double() for x in (q, q, q, mask))), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_here_is_not_handed_back(name):
    of_query, of_keys, dv, options = CASES[name]
    mask = options.get("attn_mask")
    masks = [mask] if mask is None or mask.dtype == torch.bool else [mask, mask.detach().clone().requires_grad_()]
    for learned in (False, True):
        q, k, v = (x.requires_grad_(learned) for x in map(torch.empty, (of_query, of_keys, (*of_keys[:-1], dv))))
        for dropout_p, given in itertools.product((0.0, 0.5), masks):
            assert refusal(q, k, v, given, dropout_p) is None
            with torch.no_grad():
                assert refusal(q, k, v, given, dropout_p) is None


def test_it_takes_what_pytorch_s_operator_takes_and_nothing_else():
    """An argument that a later version of PyTorch adds fails here, until its meaning is decided."""
    (schema,) = torch._C._jit_get_schemas_for_operator("aten::scaled_dot_product_attention")
    ours = inspect.signature(regard.torch.sdpa).parameters
    by_name = inspect.Parameter.KEYWORD_ONLY
    assert [(a.name, a.kwarg_only) for a in schema.arguments] == [(n, p.kind is by_name) for n, p in ours.items()]
    for argument in schema.arguments:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        assert ours[argument.name].default == default


def test_the_result_lies_as_the_query_does():
    q, k, v = (numbers(i, 2, 9, 4, 16) for i in range(3))
    assert regard.torch.sdpa(q, k, v).is_contiguous()
    assert regard.torch.sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2).is_contiguous()


def test_dropout_keeps_the_expectation_and_follows_the_seed():
    q, k, v = (numbers(i, 1, 2, 64, 16) for i in range(3))
    torch.manual_seed(4)
    many = torch.stack([regard.torch.sdpa(q, k, v, dropout_p=0.3) for _ in range(300)])
    assert (many.mean(0) - theirs(q, k, v)).abs().max() < 0.2
    torch.manual_seed(4)
    assert torch.equal(regard.torch.sdpa(q, k, v, dropout_p=0.3), many[0])


def test_kept_weights_are_divided_by_the_probability_of_being_kept():
    q, k = numbers(1, 1, 1, 40, 16), numbers(2, 1, 1, 40, 16)
    weights = theirs(q.double(), k.double(), torch.eye(40).double()[None, None]).float()
    for p in (1 / 256, 0.17, 0.5, 255 / 256):
        o = regard.torch.sdpa(q, k, torch.eye(40)[None, None], dropout_p=p)
        torch.testing.assert_close(o, torch.where(o > 0, weights / (1 - p), 0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("p", [1e-7, 0.0039, 0.997])
def test_dropout_that_is_finer_than_its_mask_is_refused(p):
    q = numbers(1, 1, 2, 9, 16)
    with pytest.raises(ValueError, match=f"dropout={p} is finer than a dropout mask.*1/256 to 255/256"):
        regard.torch.sdpa(q, q, q, dropout_p=p)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", [None, torch.float32])
def test_half_precision(dtype, mask):
    q, k, v = (numbers(i, 2, 3, 33, 40, dtype=dtype) for i in range(3))
    options = {} if mask is None else {"attn_mask": as_numbers(seen(33, 33))}
    got = regard.torch.sdpa(q, k, v, **options)
    expected = theirs(*(x.double() for x in (q, k, v)), **{name: x.double() for name, x in options.items()})
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"key": numbers(1, 2, 2, 9, 16), "value": numbers(1, 2, 2, 9, 16)}, "4, 2 and 2 heads.*enable_gqa=True"),
        ({"query": numbers(1, 16)}, r"query has shape \[16\]"),
        ({"key": numbers(1, 3, 4, 9, 16)}, "before the heads must be equal"),
        ({"attn_mask": torch.ones(9, 9, dtype=torch.int32)}, "attn_mask is torch.int32; it must be torch.bool"),
        ({"attn_mask": torch.ones(8, 9, dtype=torch.bool)}, r"attn_mask has shape \[8, 9\]; .* \[2, 4, 9, 9\]"),
        ({"attn_mask": torch.ones(9, 8, dtype=torch.bool)}, r"attn_mask has shape \[9, 8\]"),
        ({"attn_mask": torch.ones(9, 10)}, r"attn_mask has shape \[9, 10\]"),
        ({"attn_mask": torch.tensor(True)}, r"attn_mask has shape \[\]"),
        ({"attn_mask": torch.ones(1, 2, 4, 9, 9)}, r"attn_mask has shape \[1, 2, 4, 9, 9\]"),
        (
            {**dict.fromkeys(("query", "key", "value"), numbers(1, 4, 9, 16)), "attn_mask": torch.ones(2, 4, 9, 9)},
            r"attn_mask has shape \[2, 4, 9, 9\]; .* \[4, 9, 9\]",
        ),
        ({"dropout_p": 1.5}, "dropout=1.5 is outside"),
        ({"is_causal": 1}, "is_causal is 1; it must be True or False"),
        ({"enable_gqa": "yes"}, "enable_gqa is 'yes'; it must be True or False"),
        ({"key": numbers(1, 2, 4, 9, 8)}, "tensor 'k'"),
        ({"query": numbers(1, 2, 4, 9, 16).double()}, "q has dtype float64"),
        ({"key": numbers(1, 2, 4, 9, 16).half()}, "tensor 'k'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(change, sentence):
    given = dict.fromkeys(("query", "key", "value"), numbers(1, 2, 4, 9, 16)) | change
    with pytest.raises(ValueError, match=sentence) as caught:
        regard.torch.sdpa(**given)
    assert "\n" not in str(caught.value)
