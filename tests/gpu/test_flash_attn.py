"""flash_attn's functions and their gradients on a GPU equal those on a CPU, with PyTorch."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard  # noqa: E402
from here import Crowd  # noqa: E402
from regard.flash_attn import (  # noqa: E402
    flash_attn_func,
    flash_attn_interface,
    flash_attn_varlen_func,
    flavour,
    v3,
)

BF16 = torch.bfloat16
FEATURES = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window_size": (40, 9)},
    "softcap": {"softcap": 20.0, "causal": True},
    "alibi": {"alibi_slopes": torch.tensor([0.3, 0.1, 0.05, 0.2]), "causal": True},
}


def numbers(sq, sk, d, dtype=BF16, b=2, hq=4, hk=2):
    chance = torch.Generator().manual_seed(1)
    return [torch.randn(b, s, h, d, generator=chance).to(dtype) for s, h in ((sq, hq), (sk, hk), (sk, hk))]


def on_gpu(value):
    return value.cuda() if isinstance(value, torch.Tensor) else value


def both(call, *given, **options):
    of_gpu = call(*map(on_gpu, given), **{name: on_gpu(value) for name, value in options.items()})
    return [result.cpu() for result in of_gpu], call(*given, **options)


def close(of_gpu, of_cpu):
    for got, expected in zip(of_gpu, of_cpu):
        torch.testing.assert_close(got.float(), expected.float(), rtol=2e-2, atol=2e-2)


SHAPES = [(113, 203, 64), (128, 217, 59), (1, 147, 128), (203, 113, 96), (33, 40, 256)]


def results_of(move, feature, shape):
    options = {name: move(value) for name, value in FEATURES[feature].items()}
    return [x.cpu() for x in flash_attn_func(*map(move, numbers(*shape)), return_attn_probs=True, **options)]


def dense_gradients_of(move, feature, shape, **options):
    return gradients_of(move, flash_attn_func, drawn_like, *numbers(*shape), **FEATURES[feature], **options)


def on_cpu(value):
    return value


def of_cpu(feature, shape):
    """Results and gradients from the CPU, whose kernels are compiled."""
    return results_of(on_cpu, feature, shape), dense_gradients_of(on_cpu, feature, shape)


crowd = Crowd(of_cpu)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("feature", FEATURES)
def test_dense(feature, shape):
    expected, _ = crowd.result(feature, shape)
    close(results_of(on_gpu, feature, shape), expected)


@pytest.mark.parametrize("feature", FEATURES)
def test_packed_sequences(feature):
    lengths_q, lengths_k = (1, 70, 0, 50, 33), (40, 33, 20, 0, 70)
    q, k, v = (x[0] for x in numbers(sum(lengths_q), sum(lengths_k), 64, b=1))
    starts = [torch.tensor([0, *lengths]).cumsum(0).to(torch.int32) for lengths in (lengths_q, lengths_k)]
    close(*both(flash_attn_varlen_func, q, k, v, *starts, 70, 70, return_attn_probs=True, **FEATURES[feature]))


def gradients_of(move, call, grad_of, *given, **options):
    """The gradients of the first three tensors of a call."""
    inputs = [move(x).detach().clone().requires_grad_() for x in given[:3]]
    said = {name: move(value) for name, value in options.items()}
    out = call(*inputs, *map(move, given[3:]), **said)
    return [x.cpu().float() for x in torch.autograd.grad(out, inputs, move(grad_of(out)))]


def gradients(call, grad_of, *given, **options):
    """The gradients on the GPU and on the CPU."""
    return [gradients_of(move, call, grad_of, *given, **options) for move in (on_gpu, on_cpu)]


def drawn_like(out):
    return torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)


def close_gradients(of_gpu, of_cpu):
    for got, expected in zip(of_gpu, of_cpu, strict=True):
        assert (got - expected).abs().max() <= 0.02 * expected.abs().max()


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("feature", FEATURES)
def test_gradients_of_dense_calls(feature, shape, deterministic):
    _, expected = crowd.result(feature, shape)
    close_gradients(dense_gradients_of(on_gpu, feature, shape, deterministic=deterministic), expected)


@pytest.mark.parametrize("feature", FEATURES)
def test_gradients_of_packed_sequences(feature):
    lengths_q, lengths_k = (1, 70, 0, 50, 33), (40, 33, 20, 0, 70)
    q, k, v = (x[0] for x in numbers(sum(lengths_q), sum(lengths_k), 64, b=1))
    starts = [torch.tensor([0, *lengths]).cumsum(0).to(torch.int32) for lengths in (lengths_q, lengths_k)]
    given = (q, k, v, *starts, 70, 70)
    close_gradients(*gradients(flash_attn_varlen_func, drawn_like, *given, **FEATURES[feature]))


def test_gradients_drop_what_forward_drops():
    """<dO, O> = <dV, V>, because O is linear in V; with dO = O a different mask would break this."""
    q, k, v = (on_gpu(x).requires_grad_() for x in numbers(97, 130, 64))
    torch.cuda.manual_seed(3)
    out = flash_attn_func(q, k, v, 0.17, causal=True)
    (grad_v,) = torch.autograd.grad(out, v, out.detach())
    sums = [(a.double() * b.double()).sum() for a, b in ((out, out), (grad_v, v))]
    torch.testing.assert_close(*sums, rtol=1e-2, atol=0)


@pytest.mark.parametrize("kind", flavour.FLAVOURS)
def test_dropout_draws_from_the_gpus_generator_what_the_cpu_computes(kind):
    q, k, v = numbers(97, 130, 64)
    flavour.choose(kind)
    try:
        scores = (0.17, 0.125, True, -1, -1, 0.0, None)
        torch.cuda.manual_seed(3)
        out, lse, s, state = flash_attn_interface._flash_attn_forward(*map(on_gpu, (q, k, v)), *scores, True)
        assert state.is_cuda and s.is_cuda
        options = {"dropout": 0.17, "keep_scale": 1 / 0.83, "seed": state.cpu(), "causal": True}
        expected, kept = regard.attention(q, k, v, dropout_mask=True, **options)
        close([out.cpu()], [expected])
        kept_by_gpu = s.cpu() == 0 if kind == "ck" else ~torch.signbit(s.cpu())[..., :97, :130]
        visible = torch.ones(97, 130).tril(130 - 97).bool()
        assert torch.equal(kept_by_gpu & visible, kept.bool() & visible)
        torch.cuda.manual_seed(3)
        assert torch.equal(flash_attn_func(*map(on_gpu, (q, k, v)), 0.17, 0.125, True), out)
    finally:
        flavour.choose("cuda")


def test_the_third_interface():
    q, k, v = numbers(90, 140, 64)
    close(*both(v3.flash_attn_func, q, k, v, causal=True, attention_chunk=33, return_attn_probs=True))
    starts = torch.tensor([0, 50, 90], dtype=torch.int32), torch.tensor([0, 40, 140], dtype=torch.int32)
    used = torch.tensor([44, 40], dtype=torch.int32), torch.tensor([40, 77], dtype=torch.int32)
    packed = (q[0], k[0], v[0], *starts, 50, 100, *used)
    of_gpu, of_cpu = both(lambda *given: [v3.flash_attn_varlen_func(*given, causal=True, attention_chunk=16)], *packed)
    rows = torch.cat((torch.arange(44), torch.arange(50, 90)))
    close([of_gpu[0][rows]], [of_cpu[0][rows]])


def test_operators_of_the_third_interface():
    regard.flash_attn.register()
    try:
        close(*both(torch.ops.flash_attn_3.fwd, *numbers(113, 203, 64), is_causal=True))
    finally:
        regard.flash_attn.unregister()


def test_nothing_waits_for_the_gpu():
    q, k, v = (on_gpu(x) for x in numbers(64, 64, 64))
    starts = on_gpu(torch.tensor([0, 30, 64], dtype=torch.int32))
    flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, 40, 40, causal=True)  # loads the kernel
    with_chunks = {"causal": True, "attention_chunk": 8}
    v3.flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, 40, 40, **with_chunks)
    learned = [x.clone().requires_grad_() for x in (q, k, v)]
    torch.autograd.grad(flash_attn_func(*learned, 0.1, causal=True), learned, q)
    torch.cuda.set_sync_debug_mode("error")
    try:
        flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, 40, 40, 0.1, causal=True)
        flash_attn_func(q, k, v, 0.1, causal=True)
        v3.flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, 40, 40, **with_chunks)
        torch.autograd.grad(flash_attn_func(*learned, 0.1, causal=True), learned, q)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_lse_of_rows_that_see_no_key():
    q, k = torch.randn(1, 5, 2, 64, dtype=BF16).cuda(), torch.randn(1, 2, 2, 64, dtype=BF16).cuda()
    out, lse, _ = flash_attn_func(q, k, k, causal=True, return_attn_probs=True)
    assert not out[:, :3].any() and (lse[..., :3] == math.inf).all() and lse[..., 3:].isfinite().all()
