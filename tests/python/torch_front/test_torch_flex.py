"""regard.torch.flex_attention and replace_flex against PyTorch's own, and against autograd of the formula."""

import inspect
import warnings

import pytest
import torch
import torch.nn.attention.flex_attention as theirs
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask

import flex_functions
import regard.torch
from flex_functions import KEEPS, SCORES

L, S = 130, 150


def drawn(batch_k=2, requires_grad=False):
    torch.manual_seed(3)
    shapes = (2, 4, L, 8), (batch_k, 2, S, 8), (batch_k, 2, S, 12)
    return [torch.randn(shape, requires_grad=requires_grad) for shape in shapes]


doc = torch.randint(0, 3, (2, S), generator=torch.Generator().manual_seed(1)).sort(-1).values
slope = torch.tensor([0.5, 0.25, 0.125, 0.0625])


def score(s, b, h, q, kv):
    return s - slope[h] * (q - kv).abs()


def keep(b, h, q, kv):
    return (doc[b, q] == doc[b, kv]) & (kv <= q + h)


MASK = create_block_mask(keep, 2, 4, L, S, device="cpu")
SMALL = create_block_mask(keep, 2, 4, L, S, device="cpu", BLOCK_SIZE=(16, 32))


def formula(q, k, v, score, keep, scale):
    s = torch.einsum("bhqd,bhkd->bhqk", q, k.repeat_interleave(2, 1)) * scale
    places = torch.meshgrid(*map(torch.arange, s.shape), indexing="ij")
    s = torch.where(keep(*places), score(s, *places), -torch.inf)
    return s.softmax(-1).nan_to_num() @ v.repeat_interleave(2, 1), s.logsumexp(-1), s.amax(-1)


def test_arguments_are_those_of_pytorch():
    ours, of_theirs = (inspect.signature(f).parameters.values() for f in (regard.torch.flex_attention, THEIRS))
    assert [(p.name, p.default, p.kind) for p in ours] == [(p.name, p.default, p.kind) for p in of_theirs]


THEIRS = theirs.flex_attention


def test_results_are_those_of_pytorch(monkeypatch):
    monkeypatch.setattr(theirs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)  # which takes seconds less

    def mod(s, b, h, q, kv):
        s = SCORES["T5"][0](score(s, b, h, q, kv), b, h % 3, q, kv)
        return torch.where(KEEPS["dilated"][0](b, h, q, kv), s, -float("inf"))

    options = {"score_mod": mod, "block_mask": MASK, "scale": 0.3, "enable_gqa": True}
    options["return_aux"] = AuxRequest(lse=True)
    expected, aux = THEIRS(*drawn(), **options)
    actual, ours = regard.torch.flex_attention(*drawn(), **options)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(ours.lse, aux.lse)
    assert type(ours) is type(aux) and ours.max_scores is None
    options["return_aux"] = AuxRequest(max_scores=True)
    _, largest = regard.torch.flex_attention(*drawn(), **options)
    options["return_aux"] = AuxRequest(lse=True, max_scores=True)
    _, both = regard.torch.flex_attention(*drawn(), **options)
    assert largest.lse is None and torch.equal(largest.max_scores, both.max_scores) and torch.equal(both.lse, ours.lse)
    _, _, rows = formula(*drawn(), mod, keep, 0.3)
    torch.testing.assert_close(both.max_scores, rows)
    del options["return_aux"]
    o, lse = regard.torch.flex_attention(*drawn(), return_lse=True, **options)
    assert torch.equal(o, actual) and torch.equal(lse, ours.lse)
    assert torch.equal(regard.torch.flex_attention(*drawn(), **options), actual)


@pytest.mark.parametrize("batch_k", [1, 2])
def test_gradients_are_those_of_autograd(batch_k):
    inputs = drawn(batch_k, requires_grad=True)
    o, lse = regard.torch.flex_attention(*inputs, score, MASK, 0.3, True, True)
    expected, expected_lse, _ = formula(*inputs, score, keep, 0.3)
    torch.testing.assert_close(o, expected)
    torch.testing.assert_close(lse, expected_lse)
    grad_o = torch.randn_like(o)
    for found, exact in zip(*(torch.autograd.grad(x, inputs, grad_o) for x in (o, expected))):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


def test_the_result_has_the_memory_order_of_the_query():
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in drawn())
    o, lse = regard.torch.flex_attention(q, k, v, enable_gqa=True, return_lse=True)
    assert o.stride(1) < o.stride(2) and lse.shape == (2, 4, L)


def of_blocks(mask, **changed):
    names = "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices mask_mod seq_lengths"
    return BlockMask.from_kv_blocks(**{**{name: getattr(mask, name) for name in names.split(" ")}, **changed})


def test_blocks_that_are_those_of_the_function_are_accepted():
    expected = regard.torch.flex_attention(*drawn(), block_mask=MASK, enable_gqa=True)
    for mask in (of_blocks(MASK), SMALL):
        assert torch.equal(regard.torch.flex_attention(*drawn(), block_mask=mask, enable_gqa=True), expected)
    changed = of_blocks(MASK)
    regard.torch.flex_attention(*drawn(), block_mask=changed, enable_gqa=True)
    changed.mask_mod = theirs.noop_mask  # its blocks are compared again
    with pytest.raises(NotImplementedError, match="hides or shows other blocks"):
        regard.torch.flex_attention(*drawn(), block_mask=changed, enable_gqa=True)
    everything = create_block_mask(theirs.noop_mask, None, None, L, S, device="cpu")
    o = regard.torch.flex_attention(*drawn(), block_mask=everything, enable_gqa=True)
    assert torch.equal(o, regard.torch.flex_attention(*drawn(), enable_gqa=True))
    shorter = create_block_mask(flex_functions.causal, None, None, 200, 200, device="cpu")._adjust(L, S)
    o = regard.torch.flex_attention(*drawn(), block_mask=shorter, enable_gqa=True)
    assert torch.equal(o, regard.torch.sdpa(*drawn(), is_causal=True, enable_gqa=True))


FEWER = BlockMask.from_kv_blocks(
    torch.ones(1, 1, 2, dtype=torch.int32), torch.zeros(1, 1, 2, 2, dtype=torch.int32), seq_lengths=(L, S)
)


def but_one(b, h, q, kv):
    return keep(b, h, q, kv) ^ ((q == 77) & (kv == 111))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"block_mask": of_blocks(SMALL, mask_mod=but_one, BLOCK_SIZE=(16, 32))}, "hides or shows other blocks"),
        ({"enable_gqa": False}, "query has 4 heads and key 2; enable_gqa=True lets heads of key serve several"),
        ({"block_mask": FEWER}, "block_mask hides or shows other blocks than its mask_mod, as from_kv_blocks can make"),
        ({"block_mask": of_blocks(MASK, mask_mod=theirs.noop_mask)}, "hides or shows other blocks than its mask_mod"),
        ({"block_mask": MASK[0:1]}, "block_mask is a part of another, which has no function; make one of the function"),
        ({"block_mask": keep}, "block_mask is of type function; it must be a BlockMask of create_block_mask"),
        (
            {"block_mask": create_block_mask(flex_functions.causal, 1, 1, S, S, device="cpu")},
            "block_mask is of 150 queries and 150 keys, and there are 130 and 150; make one for these lengths",
        ),
        (
            {"block_mask": create_block_mask(flex_functions.causal, 3, 1, L, S, device="cpu")},
            r"block_mask is of \[3, 1\] sequences and heads; it must be of \[2, 4\], or of 1 of each",
        ),
        ({"return_aux": AuxRequest(lse=True), "return_lse": True}, "return_lse and return_aux are both given; "),
        ({"return_aux": True}, "return_aux is of type bool; it must be an AuxRequest"),
        ({"return_lse": "x"}, "return_lse is 'x'; it must be True or False"),
        ({"enable_gqa": 1}, "enable_gqa is 1; it must be True or False"),
        ({"kernel_options": {"BACKEND": "FLASH"}}, "kernel_options asks for BACKEND='FLASH' of PyTorch; leave it out"),
        ({"kernel_options": {"BLOCK_X": 64}}, "kernel_options has 'BLOCK_X', which is not known here; leave it out"),
        ({"score_mod": lambda s, b, h, q, kv: s if q > kv else -s}, "branches on data; torch.where"),
    ],
)
def test_what_is_refused(options, sentence):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=sentence):
        regard.torch.flex_attention(*drawn(), **{"enable_gqa": True, **options})


def test_within_torch_compile():
    def call(q, k, v, score, mask):
        return regard.torch.flex_attention(q, k, v, score, mask, enable_gqa=True)

    attend = torch.compile(call, backend="aot_eager", fullgraph=True)
    function = regard.torch.function
    expected = call(*drawn(), score, MASK)
    assert torch.equal(attend(*drawn(), function(score), function(MASK)), expected)
    new = create_block_mask(keep, 2, 4, L, S, device="cpu")
    assert torch.equal(attend(*drawn(), function(score), function(new)), expected)
    everything = function(create_block_mask(theirs.noop_mask, None, None, L, S, device="cpu"))
    assert torch.equal(attend(*drawn(), None, everything), call(*drawn(), None, None))
    for mask in (
        create_block_mask(keep, 2, 4, L, S, device="cpu"),
        of_blocks(MASK, kv_num_blocks=MASK.kv_num_blocks - 1),
    ):
        with pytest.raises(
            Exception, match=r"not compared with its function .* pass regard.torch.function\(block_mask\)"
        ):
            attend(*drawn(), function(score), mask)
    with pytest.raises(NotImplementedError, match="block_mask hides or shows other blocks than its mask_mod"):
        function(of_blocks(MASK, kv_num_blocks=MASK.kv_num_blocks - 1))
    torch._dynamo.reset()


def test_pages_of_pytorch(monkeypatch):
    """Functions and masks that PyTorch makes for pages, which read tensors of an object of PyTorch's."""
    monkeypatch.setattr(theirs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    length, page = 64, 16
    q, k, v = (torch.randn(2, 3, length, 8) for _ in range(3))
    pages = PagedAttention(12, page, 3, device="cpu")
    for part in (20, length):  # so that the pages of both sequences are among each other
        for b in range(2):
            pages.reserve(torch.tensor(b), torch.tensor(part))
    k_pages, v_pages = torch.zeros(2, 1, 3, 12 * page, 8).unbind(0)
    pages.assign(torch.arange(2), torch.arange(length).expand(2, length), k, v, k_pages, v_pages)
    mask = create_block_mask(flex_functions.causal, 2, 1, length, length, device="cpu", BLOCK_SIZE=page)
    expected = THEIRS(q, k, v, score_mod=lambda s, b, h, i, j: s + 0.1 * (i - j), block_mask=mask)
    actual = regard.torch.flex_attention(
        q,
        k_pages,
        v_pages,
        score_mod=pages.get_score_mod(lambda s, b, h, i, j: s + 0.1 * (i - j)),
        block_mask=pages.convert_logical_block_mask(mask),
    )
    torch.testing.assert_close(actual, expected)


def test_options_of_kernels_are_ignored_with_one_warning():
    options = {"enable_gqa": True, "kernel_options": {"fwd_BLOCK_M": 64, "num_stages": 2}}
    with pytest.warns(UserWarning, match="kernel_options fwd_BLOCK_M, num_stages .* ignored here") as found:
        regard.torch.flex_attention(*drawn(), **options)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regard.torch.flex_attention(*drawn(), **options)


def test_replaced_in_place():
    with regard.torch.replace_flex() as block:
        o = theirs.flex_attention(*drawn(), score_mod=score, enable_gqa=True)
        with regard.torch.replace_flex() as inner:
            theirs.flex_attention(*drawn(), enable_gqa=True)
        assert (block.computed, inner.computed) == (1, 1) and theirs.flex_attention is not THEIRS
        with pytest.raises(NotImplementedError, match="not supported on CPU"):  # by PyTorch's own
            options = {"BACKEND": "TRITON"}
            theirs.flex_attention(
                *drawn(), enable_gqa=True, return_aux=AuxRequest(max_scores=True), kernel_options=options
            )
        assert block.computed == 1
        assert list(block.handed_back) == ["kernel_options asks for BACKEND='TRITON' of PyTorch; leave it out"]
    assert theirs.flex_attention is THEIRS
    assert torch.equal(o, regard.torch.flex_attention(*drawn(), score_mod=score, enable_gqa=True))
    with (
        regard.torch.replace_flex(strict=True),
        pytest.raises(NotImplementedError, match=r"replace_flex\(strict=True\)"),
    ):
        theirs.flex_attention(*drawn(), block_mask=FEWER, enable_gqa=True)
    assert theirs.flex_attention is THEIRS
