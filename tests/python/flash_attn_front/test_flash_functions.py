"""flash_attn's functions within flash_attn's tolerances, over a reduced matrix of its own tests."""

import math

import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, close, kept_of, leaves  # noqa: E402
from part import part_of  # noqa: E402

from regard.flash_attn import (  # noqa: E402
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)

BF16 = torch.bfloat16
MATRIX = [
    Case(113, 203, 64),
    Case(128, 217, 59, dtype=BF16, causal=True),
    Case(113, 211, 111, causal=True, window=(30, 9)),
    Case(108, 256, 40, hk=1, window=(17, 60), dtype=BF16),
    Case(203, 113, 64, hk=4, causal=True),
    Case(1, 147, 128, causal=True),
    Case(97, 97, 1, causal=True),
    Case(64, 33, 7, window=(0, 0)),
    Case(70, 90, 64, alibi=True, causal=True),
    Case(70, 90, 64, alibi=True, window=(20, 20)),
    Case(80, 100, 64, softcap=50.0, causal=True),
    Case(33, 40, 256, dtype=BF16),
    Case(60, 60, 32, dtype=torch.float32, causal=True),
]


def describe(case):
    words = [f"{case.sq}-{case.sk}-{case.d}-{case.hk}", str(case.dtype)[6:], "causal" if case.causal else ""]
    words += [f"window{case.window}" if case.window != (-1, -1) else "", "alibi" if case.alibi else ""]
    return " ".join(word for word in [*words, f"cap{case.softcap}" if case.softcap else ""] if word)


def judge(case, call, inputs, tensors, dropout=0.0, **arguments):
    """call(*inputs) gives out, lse and S_dmask; its gradients are unpacked by the caller that packed the inputs."""
    out, lse, s_dmask = call(*inputs, dropout, return_attn_probs=True, **case.arguments(), **arguments)
    kept = kept_of(s_dmask, case) if dropout else None
    options = case.options(kept, dropout)
    gradients = torch.autograd.grad(out, inputs, tensors[3])
    return out, lse, options, gradients


@pytest.mark.parametrize("case", part_of(MATRIX), ids=describe)
def test_out_lse_and_gradients(case):
    tensors = case.numbers()
    inputs = leaves(*tensors[:3])
    out, lse, options, gradients = judge(case, flash_attn_func, inputs, tensors)
    expected = close([out, *gradients], tensors, options).float()
    expected = expected.masked_fill(expected == -math.inf, math.inf)
    torch.testing.assert_close(lse, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", part_of([MATRIX[0], MATRIX[2], MATRIX[9]]), ids=describe)
def test_dropout(case):
    tensors = case.numbers()
    inputs = leaves(*tensors[:3])
    torch.manual_seed(4)
    out, _, options, gradients = judge(case, flash_attn_func, inputs, tensors, dropout=0.17)
    close([out, *gradients], tensors, options)
    torch.manual_seed(4)
    assert torch.equal(flash_attn_func(*inputs, 0.17, **case.arguments()), out)
    assert not torch.equal(flash_attn_func(*inputs, 0.17, **case.arguments()), out)


@pytest.mark.parametrize("case", [MATRIX[1], MATRIX[6]], ids=describe)
def test_packed_tensors_are_their_parts(case):
    same = Case(case.sk, case.sk, case.d, case.hk, case.hk, case.b, case.dtype, case.causal)
    tensors = same.numbers()
    qkv = torch.stack(tensors[:3], dim=2).requires_grad_()
    out, _, options, (gradient,) = judge(same, flash_attn_qkvpacked_func, [qkv], tensors)
    close([out, *gradient.unbind(2)], tensors, options)

    tensors = case.numbers()
    q, kv = tensors[0].clone().requires_grad_(), torch.stack(tensors[1:3], dim=2).requires_grad_()
    out, _, options, (grad_q, grad_kv) = judge(case, flash_attn_kvpacked_func, [q, kv], tensors)
    close([out, grad_q, *grad_kv.unbind(2)], tensors, options)


LENGTHS = [(1, 40), (70, 33), (0, 20), (50, 0), (33, 70), (40, 40)]
VARLEN = [
    Case(0, 0, 64),
    Case(0, 0, 59, dtype=BF16, causal=True),
    Case(0, 0, 111, hk=1, causal=True, window=(12, 3)),
    Case(0, 0, 40, alibi=True, window=(9, 20)),
    Case(0, 0, 64, softcap=30.0, causal=True),
]


def offsets(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def sequences(case, lengths):
    """Each as a separate case, with its numbers."""
    found = []
    for i, (sq, sk) in enumerate(lengths):
        one = Case(sq, sk, case.d, case.hq, case.hk, 1, case.dtype, case.causal, case.window, case.softcap, case.alibi)
        found.append((one, one.numbers(i)))
    return found


def packed(parts, index):
    return torch.cat([tensors[index][0] for _, tensors in parts])


@pytest.mark.parametrize("case", part_of(VARLEN), ids=describe)
def test_packed_sequences_are_each_a_call(case):
    parts = sequences(case, LENGTHS)
    lengths_q, lengths_k = zip(*LENGTHS)
    inputs = leaves(*[packed(parts, i) for i in range(3)])
    starts = offsets(lengths_q), offsets(lengths_k), max(lengths_q), max(lengths_k)
    arguments = case.arguments()
    if case.alibi:
        arguments["alibi_slopes"] = parts[0][0].slopes().expand(len(LENGTHS), -1).contiguous()
    out, lse, s_dmask = flash_attn_varlen_func(*inputs, *starts, return_attn_probs=True, **arguments)
    assert s_dmask.numel() == 0 and lse.shape == (case.hq, sum(lengths_q))
    gradients = torch.autograd.grad(out, inputs, packed(parts, 3))
    pieces = [out.split(lengths_q), gradients[0].split(lengths_q)]
    pieces += [gradient.split(lengths_k) for gradient in gradients[1:]]
    for (one, tensors), results, rows in zip(parts, zip(*pieces), lse.split(lengths_q, dim=1)):
        if 0 in (one.sq, one.sk):
            assert all(not result.any() for result in results) and (rows == math.inf).all()
            continue
        expected = close([result[None] for result in results], tensors, one.options(), of_out=4).float()[0]
        torch.testing.assert_close(rows, expected.masked_fill(expected == -math.inf, math.inf), rtol=1e-4, atol=1e-4)


def test_packed_sequences_in_packed_tensors():
    case = VARLEN[1]
    lengths = [40, 0, 33, 1]
    parts = sequences(Case(0, 0, case.d, 2, 2, dtype=BF16, causal=True), [(n, n) for n in lengths])
    q, k, v, grad_o = (packed(parts, i) for i in range(4))
    starts = offsets(lengths)
    inputs = leaves(q, k, v)
    out = flash_attn_varlen_func(*inputs, starts, starts, 40, 40, causal=True)
    gradients = torch.autograd.grad(out, inputs, grad_o)

    qkv = torch.stack((q, k, v), dim=1).requires_grad_()
    again = flash_attn_varlen_qkvpacked_func(qkv, starts, 40, causal=True)
    assert torch.equal(again, out)
    assert torch.equal(torch.autograd.grad(again, qkv, grad_o)[0], torch.stack(gradients, dim=1))

    kv = torch.stack((k, v), dim=1).requires_grad_()
    again = flash_attn_varlen_kvpacked_func(inputs[0], kv, starts, starts, 40, 40, causal=True)
    assert torch.equal(again, out)
    assert torch.equal(torch.autograd.grad(again, kv, grad_o)[0], torch.stack(gradients[1:], dim=1))


def test_dropout_of_packed_sequences():
    case = Case(0, 0, 64)
    lengths = [(50, 70), (0, 9), (40, 30)]
    parts = sequences(case, lengths)
    lengths_q, lengths_k = zip(*lengths)
    inputs = leaves(*[packed(parts, i) for i in range(3)])
    starts = offsets(lengths_q), offsets(lengths_k), 50, 70
    out, _, s_dmask = flash_attn_varlen_func(*inputs, *starts, 0.17, return_attn_probs=True)
    assert s_dmask.shape == (3, case.hq, 128, 128)
    gradients = torch.autograd.grad(out, inputs, packed(parts, 3))
    pieces = [out.split(lengths_q), gradients[0].split(lengths_q)]
    pieces += [gradient.split(lengths_k) for gradient in gradients[1:]]
    for (one, tensors), results, s in zip(parts, zip(*pieces), s_dmask):
        if one.sq:
            options = one.options(kept_of(s[None], one), 0.17)
            close([result[None] for result in results], tensors, options, of_out=4)


@pytest.mark.parametrize("seqlen", [5, 17, 128])
def test_large_numbers_give_no_nan(seqlen):
    q, k, v = (torch.randn(2, seqlen, 3, 64, dtype=torch.float16) * scale for scale in (5, 5, 1))
    q, k, v = leaves(q, k, v)
    gradients = torch.autograd.grad(flash_attn_func(q, k, v, causal=True), (q, k, v), torch.randn_like(q))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_the_gradient_of_out_may_have_any_strides():
    case = Case(33, 47, 64, dtype=BF16)
    tensors = case.numbers()
    inputs = leaves(*tensors[:3])
    out = flash_attn_func(*inputs)
    turned = tensors[3].permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    close([out, *torch.autograd.grad(out, inputs, turned)], tensors, case.options())


def test_deterministic_gradients_are_equal():
    case = Case(127, 239, 64, causal=True)
    tensors = case.numbers()
    inputs = leaves(*tensors[:3])
    out = flash_attn_func(*inputs, causal=True, deterministic=True)
    first, *others = (torch.autograd.grad(out, inputs, tensors[3], retain_graph=True) for _ in range(5))
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other))


def test_tensors_with_any_strides():
    case = Case(20, 30, 16)
    tensors = [tensor.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0) for tensor in case.numbers()]
    inputs = [tensor.requires_grad_() for tensor in tensors[:3]]
    out = flash_attn_func(*inputs)
    close([out, *torch.autograd.grad(out, inputs, tensors[3])], tensors, case.options())


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_compiled_call_is_one_graph(dropout):
    def call(q, k, v):
        return flash_attn_func(q, k, v, dropout, causal=True, window_size=(20, 0), deterministic=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    for sq in (33, 40):
        *inputs, grad_o = Case(sq, 47, 32, hk=4).numbers()
        results = []
        for function in (call, compiled):
            torch.manual_seed(1)
            leaf = leaves(*inputs)
            out = function(*leaf)
            results.append([out, *torch.autograd.grad(out, leaf, grad_o)])
        assert all(map(torch.equal, *results))


def test_a_compiled_call_of_packed_sequences():
    lengths = [20, 0, 13]
    q, k, v, grad_o = (torch.randn(33, 2, 32) for _ in range(4))

    def call(q, k, v, starts):
        return flash_attn_varlen_func(q, k, v, starts, starts, 20, 20, causal=True)

    results = []
    for function in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
        leaf = leaves(q, k, v)
        out = function(*leaf, offsets(lengths))
        results.append([out, *torch.autograd.grad(out, leaf, grad_o)])
    assert all(map(torch.equal, *results))
