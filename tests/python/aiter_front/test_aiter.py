"""regard.aiter against the fp64 reference, one sequence after the other."""

import math

import numpy
import pytest

torch = pytest.importorskip("torch")
import reference  # noqa: E402
import regard.aiter  # noqa: E402

pytestmark = pytest.mark.no_compiler

HQ, HK = 4, 2
LENGTHS = (9, 1, 0, 17), (20, 6, 5, 13)  # of queries and of keys, packed


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def cumulative(lengths):
    return torch.tensor([0, *numpy.cumsum(lengths)], dtype=torch.int32)


def leaf(tensor):
    return tensor.clone().requires_grad_()


def reference_of(q, k, v, grad_o, *, masks, alibi=None, sink=None, bias=None, kept=None, p=0.0, **scores):
    """o, lse, the gradients of q, k, v, scores and sink of one sequence, [s, h, d]."""
    q, k, v, grad_o = (x.detach().double().numpy().swapaxes(0, 1)[None] for x in (q, k, v, grad_o))
    sq, sk = q.shape[2], k.shape[2]
    if alibi is not None:
        bias = reference.alibi(alibi.double().numpy(), 1, sq, sk)
    options = reference.Options(
        reference.visible(1, HQ, sq, sk, **masks),
        bias=None
        if bias is None
        else numpy.broadcast_to(bias.double().numpy() if alibi is None else bias, (1, HQ, sq, sk)),
        sink=None if sink is None else sink.detach().double().numpy(),
        kept=kept,
        keep_probability=1 - p,
        **scores,
    )
    o, lse = reference.attention(q, k, v, options)
    *grads, of_scores, of_sink = reference.gradients(grad_o, q, k, v, options)
    return [x[0].swapaxes(0, 1) for x in (o, *grads)], lse[0], of_scores[0], of_sink


def close(got, expected, tolerance=5e-5):
    expected = torch.from_numpy(numpy.ascontiguousarray(expected))
    torch.testing.assert_close(got.detach().double(), expected, rtol=tolerance, atol=tolerance)


# AITER's arguments, and the same for the reference.
CASES = {
    "plain": ({}, {}),
    "causal": ({"causal": True}, {"masks": {"causal": True}}),
    "window": ({"window_size": (3, 2)}, {"masks": {"window": (3, 2)}}),
    "first tokens": (
        {"window_size": (3, 2, 2), "causal": True},
        {"masks": {"window": (3, 0), "sink_tokens": 2}},
    ),
    "first tokens without a window": ({"window_size": (-1, -1, 2), "causal": True}, {"masks": {"causal": True}}),
    "scale": ({"softmax_scale": 0.3}, {"scale": 0.3}),
    "alibi": ({"alibi_slopes": numbers(5, HQ).abs(), "causal": True}, {"masks": {"causal": True}}),
    "sinks": ({"sink_ptr": numbers(6, HQ), "causal": True}, {"masks": {"causal": True}}),
}


def oracle_options(arguments, said):
    said = {"masks": {}, **said}
    if "alibi_slopes" in arguments:
        said["alibi"] = arguments["alibi_slopes"]
    if "sink_ptr" in arguments:
        said["sink"] = arguments["sink_ptr"]
    return said


@pytest.mark.parametrize("name", CASES)
def test_dense(name):
    arguments, said = CASES[name]
    q, k, v = (leaf(numbers(i, 2, s, h, 40)) for i, (s, h) in enumerate([(9, HQ), (20, HK), (20, HK)]))
    grad_o = numbers(4, 2, 9, HQ, 40)
    sink = leaf(arguments["sink_ptr"]) if "sink_ptr" in arguments else None
    out, lse = regard.aiter.flash_attn_func(
        q, k, v, **{**arguments, **({} if sink is None else {"sink_ptr": sink})}, return_lse=True
    )
    out.backward(grad_o)
    of_sinks = 0
    for b in range(2):
        (o, *grads), expected_lse, _, of_sink = reference_of(
            q[b], k[b], v[b], grad_o[b], **oracle_options(arguments, said)
        )
        close(out[b], o)
        close(lse[b], expected_lse)
        for tensor, grad in zip((q, k, v), grads):
            close(tensor.grad[b], grad)
        of_sinks = of_sinks + of_sink if sink is not None else 0
    if sink is not None:
        close(sink.grad, of_sinks)


PADDED = (12, 3, 2, 17), (21, 6, 8, 15)


SHOWN_WITH_PADDING = ("causal", "soft cap, sinks", "bias")
PACKED = [(name, False) for name in (*CASES, "soft cap", "soft cap, sinks", "soft cap, alibi", "bias")]


@pytest.mark.parametrize(("name", "padded"), [*PACKED, *((name, True) for name in SHOWN_WITH_PADDING)])
def test_packed(name, padded):
    """The soft cap in backward, gradients of sinks, and those of a bias: AITER itself gets none of them right."""
    arguments, said = CASES.get(name, ({}, {}))
    if "soft cap" in name:
        arguments, said = {"logits_soft_cap": 0.7, "causal": True}, {"softcap": 0.7, "masks": {"causal": True}}
    if name == "soft cap, sinks":
        arguments = {**arguments, "sink_ptr": numbers(6, HQ)}
    if name == "soft cap, alibi":
        arguments = {**arguments, "alibi_slopes": numbers(5, HQ).abs()}
    rooms = PADDED if padded else LENGTHS
    starts = [cumulative(of) for of in rooms]
    tokens_q, tokens_k = (int(of[-1]) for of in starts)
    q, k, v = (leaf(numbers(i, t, h, 16)) for i, (t, h) in enumerate([(tokens_q, HQ), (tokens_k, HK), (tokens_k, HK)]))
    grad_o = numbers(4, tokens_q, HQ, 16)
    given = dict(arguments)
    learned = {}
    if "sink_ptr" in arguments:
        learned["sink"] = given["sink_ptr"] = leaf(arguments["sink_ptr"])
    if name == "bias":
        learned["bias"] = given["bias"] = leaf(numbers(8, tokens_q, max(LENGTHS[1])))
    if padded:
        given.update(cu_seqlens_q_padded=starts[0], cu_seqlens_k_padded=starts[1])
    out, lse = regard.aiter.flash_attn_varlen_func(
        q, k, v, *map(cumulative, LENGTHS), *map(max, LENGTHS), return_lse=True, **given
    )
    out.backward(grad_o)
    of_sinks = numpy.zeros(HQ)
    for first_q, first_k, sq, sk in zip(*(of.tolist() for of in starts), *LENGTHS):
        rows, keys = slice(first_q, first_q + sq), slice(first_k, first_k + sk)
        if sq == 0:
            close(k.grad[keys], numpy.zeros((sk, HK, 16)))
            continue
        more = {"bias": given["bias"][rows, :sk].detach()} if name == "bias" else {}
        (o, *grads), expected_lse, of_scores, of_sink = reference_of(
            q[rows], k[keys], v[keys], grad_o[rows], **oracle_options(arguments, said), **more
        )
        close(out[rows], o)
        close(lse[:, rows], expected_lse)
        for tensor, at, grad in zip((q, k, v), (rows, keys, keys), grads):
            close(tensor.grad[at], grad)
        if name == "bias":
            close(learned["bias"].grad[rows, :sk], of_scores.sum(0))
            close(learned["bias"].grad[rows, sk:], numpy.zeros((sq, max(LENGTHS[1]) - sk)))
        if "sink" in learned:
            of_sinks += of_sink
    if "sink" in learned:
        close(learned["sink"].grad, of_sinks)


def test_padded_sequences_of_one_length():
    q, k, v = numbers(1, 2, 9, HQ, 40), numbers(2, 2, 20, HK, 40), numbers(3, 2, 20, HK, 40)
    lengths = (4, 9), (20, 7)
    out = regard.aiter.flash_attn_func(
        q, k, v, causal=True, cu_seqlens_q=cumulative(lengths[0]), cu_seqlens_kv=cumulative(lengths[1])
    )
    for b, (sq, sk) in enumerate(zip(*lengths)):
        (o, *_), *_ = reference_of(q[b, :sq], k[b, :sk], v[b, :sk], q[b, :sq], masks={"causal": True})
        close(out[b, :sq], o)
        assert not out[b, sq:].any()


def test_dropout_is_told_by_bytes():
    q, k, v = numbers(1, 1, 9, HQ, 40), numbers(2, 1, 20, HK, 40), numbers(3, 1, 20, HK, 40)
    torch.manual_seed(3)
    out, lse, s_dmask = regard.aiter.flash_attn_func(q, k, v, dropout_p=0.3, return_lse=True, return_attn_probs=True)
    assert s_dmask.shape == (1, HQ, 9, 20) and s_dmask.dtype == torch.uint8
    kept = (s_dmask <= math.floor(0.7 * 255)).numpy()
    assert 0 < kept.mean() < 1
    (o, *_), expected_lse, *_ = reference_of(q[0], k[0], v[0], q[0], masks={}, kept=kept, p=0.3)
    close(out[0], o)
    close(lse[0], expected_lse)
    assert regard.aiter.flash_attn_func(q, k, v, return_attn_probs=True)[1].shape == (0,)


def test_results_go_where_they_are_wanted():
    q, k, v = numbers(1, 9, HQ, 40), numbers(2, 20, HK, 40), numbers(3, 20, HK, 40)
    offsets = cumulative((9,)), cumulative((20,))
    out = torch.full_like(q, torch.nan)
    assert regard.aiter.flash_attn_varlen_func(q, k, v, *offsets, 9, 20, out=out).data_ptr() == out.data_ptr()
    assert torch.equal(out, regard.aiter.flash_attn_varlen_func(q, k, v, *offsets, 9, 20))
    columns = q.transpose(1, 2).contiguous().transpose(1, 2)  # rows that are not contiguous are copied
    assert torch.equal(out, regard.aiter.flash_attn_varlen_func(columns, k, v, *offsets, 9, 20))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz])
@pytest.mark.parametrize("packed", [False, True])
def test_eight_bits(packed, dtype):
    q, k, v = (numbers(i, 1, s, h, 64).to(dtype) for i, (s, h) in enumerate([(9, HQ), (20, HK), (20, HK)]))
    factors = [torch.tensor([number]) for number in (0.5, 2.0, 0.25)]
    if packed:
        out = regard.aiter.flash_attn_varlen_fp8_pertensor_func(
            q[0], k[0], v[0], *factors, cumulative((9,)), cumulative((20,)), 9, 20, causal=True
        )[None]
    else:
        out = regard.aiter.flash_attn_fp8_pertensor_func(q, k, v, *factors, causal=True)
    scaled = [x[0].double() * factor for x, factor in zip((q, k, v), factors)]
    (o, *_), *_ = reference_of(*scaled, scaled[0], masks={"causal": True})
    assert out.dtype == torch.bfloat16
    close(out[0], o, 0.06)


def varlen(**arguments):
    x, offsets = numbers(1, 9, 2, 16), cumulative((9,))
    return regard.aiter.flash_attn_varlen_func(x, x, x, offsets, offsets, 9, 9, **arguments)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (
            lambda: varlen(block_table=torch.zeros(1, 1)),
            ValueError,
            r"block_table has shape \[1, 1\] and k \[9, 2, 16\]; with block_table .* k and v are \[pages, page",
        ),
        (lambda: varlen(min_seqlen_q=1), NotImplementedError, "min_seqlen_q is 1.*give 0"),
        (lambda: varlen(window_size=(1,)), ValueError, r"window_size is \(1,\); it must be"),
        (lambda: varlen(window_size=3), ValueError, "window_size is 3; it must be"),
        (lambda: varlen(window_size=(1.5, 2)), ValueError, r"window_size is \(1.5, 2\); it must be .* whole numbers"),
        (
            lambda: varlen(window_size=(4, 0, -1)),
            ValueError,
            r"window_size is \(4, 0, -1\); .* sink tokens are 0 or more",
        ),
        (lambda: varlen(window_size=(-1, -1, -1)), ValueError, "sink tokens are 0 or more"),
        (lambda: varlen(bias=torch.zeros(8, 9)), ValueError, r"a row for each token .* of max_seqlen_k keys, \[9, 9\]"),
        (lambda: varlen(causal="top_left"), ValueError, "causal is 'top_left'; it must be True or False"),
        (lambda: varlen(dropout_p=1e-7), ValueError, "finer than a dropout mask"),
        (
            lambda: varlen(bias=torch.zeros(9, 9), alibi_slopes=torch.zeros(2)),
            ValueError,
            "bias and alibi_slopes are both given",
        ),
        (
            lambda: regard.aiter.flash_attn_fp8_pertensor_func(*[numbers(1, 1, 9, 2, 16)] * 3, 0.5, 0.25, 2.0),
            TypeError,
            "q_descale is 0.5; it must be a float32 tensor of one number",
        ),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(call, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_bias_for_all_heads_and_sequences():
    q, k, v = (leaf(numbers(i, 2, s, h, 7)) for i, (s, h) in enumerate([(9, HQ), (20, HK), (20, HK)]))
    bias, grad_o = leaf(numbers(5, 9, 20)), numbers(4, 2, 9, HQ, 7)
    out = regard.aiter.flash_attn_func(q, k, v, bias=bias)
    out.backward(grad_o)
    of_scores = 0
    for b in range(2):
        (o, *grads), _, of_one, _ = reference_of(q[b], k[b], v[b], grad_o[b], masks={}, bias=bias.detach())
        close(out[b], o)
        close(q.grad[b], grads[0])
        of_scores = of_scores + of_one.sum(0)
    close(bias.grad, of_scores)
