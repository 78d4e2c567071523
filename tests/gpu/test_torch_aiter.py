"""regard.aiter on a GPU: its results and gradients equal those of the CPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
from regard.aiter import (  # noqa: E402
    flash_attn_fp8_pertensor_func,
    flash_attn_func,
    flash_attn_varlen_func,
)


def numbers(seed, *shape, dtype=torch.bfloat16):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def on_gpu(value):
    return value.cuda() if isinstance(value, torch.Tensor) else value


def compare(function, *arguments, **options):
    expected = function(*arguments, **options)
    got = function(*map(on_gpu, arguments), **{name: on_gpu(x) for name, x in options.items()})
    for ours, right in zip(got, expected):
        torch.testing.assert_close(ours.cpu().float(), right.float(), rtol=2e-2, atol=2e-2)


SINK = numbers(5, 4, dtype=torch.float32)


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window_size": (9, 3, 2), "sink_ptr": SINK}, {"bias": numbers(6, 50, 70)}]
)
def test_dense(options):
    inputs = numbers(1, 2, 50, 4, 64), numbers(2, 2, 70, 2, 64), numbers(3, 2, 70, 2, 64)
    compare(flash_attn_func, *inputs, return_lse=True, **options)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"sink_ptr": SINK}, {"bias": numbers(6, 50, 70)}])
def test_gradients(options, deterministic):
    inputs = numbers(1, 2, 50, 4, 64), numbers(2, 2, 70, 2, 64), numbers(3, 2, 70, 2, 64)
    grad_o, found = numbers(4, 2, 50, 4, 64), []
    for move in (lambda value: value, on_gpu):
        said = {name: move(x).clone().requires_grad_() if name != "causal" else x for name, x in options.items()}
        given = [move(x).clone().requires_grad_() for x in inputs]
        out = flash_attn_func(*given, deterministic=deterministic, **said)
        learned = [x for name, x in said.items() if name != "causal"]
        found.append(torch.autograd.grad(out, [*given, *learned], move(grad_o)))
    for right, ours in zip(*found, strict=True):
        assert (ours.cpu().float() - right.float()).abs().max() <= 0.02 * right.float().abs().max()


@pytest.mark.parametrize("padded", [False, True])
def test_packed(padded):
    offsets = torch.tensor([0, 30, 31, 50], dtype=torch.int32)
    places = torch.tensor([0, 32, 40, 60], dtype=torch.int32) if padded else offsets
    tokens = int(places[-1])
    inputs = numbers(1, tokens, 4, 64), numbers(2, tokens, 2, 64), numbers(3, tokens, 2, 64)
    options = {"causal": True, "logits_soft_cap": 5.0, "sink_ptr": SINK}
    if padded:
        options.update(cu_seqlens_q_padded=places, cu_seqlens_k_padded=places)
    compare(
        lambda *given, **said: [flash_attn_varlen_func(*given, **said)], *inputs, offsets, offsets, 30, 30, **options
    )


def test_eight_bits():
    inputs = [numbers(i, 1, 50, 4, 64).to(torch.float8_e4m3fn) for i in range(3)]
    factors = [torch.tensor([factor]) for factor in (0.5, 2.0, 0.25)]
    compare(lambda *given: [flash_attn_fp8_pertensor_func(*given, causal=True)], *inputs, *factors)
