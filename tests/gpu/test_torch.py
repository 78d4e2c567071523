"""regard.torch on a GPU: features, compiled calls, CUDA graphs, streams, generators. Gradients are refused there."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch has no CUDA", allow_module_level=True)
import regard.torch  # noqa: E402

attention = regard.torch.attention
B, HQ, HK, SQ, SK, D = 2, 4, 2, 100, 130, 64


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def inputs(dtype=torch.bfloat16, d=D):
    sizes = (B, SQ, HQ, d), (B, SK, HK, d), (B, SK, HK, d)
    return [numbers(i, *size).to(dtype).cuda() for i, size in enumerate(sizes)]


def whole(*values):
    return torch.tensor(values, dtype=torch.int32)


FEATURES = {
    "plain": {},
    "causal": {"causal": True, "lse": True},
    "window": {"window": (20, 5)},
    "softcap": {"softcap": 3.0},
    "bias": {"bias": numbers(5, 1, HQ, SQ, SK)},
    "alibi": {"alibi": numbers(6, HQ).abs()},
    "sink": {"sink": numbers(7, HQ)},
    "bits": {"bits": regard.pack_bits(numbers(8, B, 1, SQ, SK) > 0)},
    "lengths": {"lengths_k": whole(SK, 41)},
    "dropout": {"dropout": 0.2, "seed": torch.tensor([3, 4])},
}


def on_gpu(option):
    return option.cuda() if isinstance(option, torch.Tensor) else option


def close(one, other):
    one, other = ((x if isinstance(x, tuple) else (x,)) for x in (one, other))
    for a, b in zip(one, other):
        torch.testing.assert_close(a.cpu().float(), b.cpu().float(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("d", [40, 64, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("feature", FEATURES)
def test_results_are_those_of_the_cpu(feature, dtype, d):
    options = {name: x.to(dtype) if name == "bias" else x for name, x in FEATURES[feature].items()}
    given = inputs(dtype, d)
    got = attention(*given, **{name: on_gpu(x) for name, x in options.items()})
    close(got, attention(*(x.cpu() for x in given), **options))


def test_packed_sequences():
    offsets = whole(0, 30, 30, SQ).cuda()
    q = inputs()[0][0]
    got = regard.torch.attention_varlen(q, q, q, offsets, offsets, 70, 70, causal=True)
    close(got, regard.torch.attention_varlen(*[x.cpu() for x in (q, q, q, offsets, offsets)], 70, 70, causal=True))


@pytest.mark.parametrize("mask", [None, torch.bool, torch.bfloat16])
def test_sdpa(mask):
    q, k, v = (x.transpose(1, 2) for x in inputs())
    options = {} if mask is None else {"attn_mask": (numbers(9, B, 1, SQ, SK) > 0).cuda()}
    if mask == torch.bfloat16:
        options["attn_mask"] = numbers(9, SQ, SK).to(mask).cuda()
    theirs = torch.nn.functional.scaled_dot_product_attention
    close(regard.torch.sdpa(q, k, v, enable_gqa=True, **options), theirs(q, k, v, enable_gqa=True, **options))


def test_compiled_calls():
    def call(q, k, v):
        return attention(q * 2, k, v, causal=True) + 1

    close(torch.compile(call, fullgraph=True)(*inputs()), call(*inputs()))


def test_gradients_are_refused_in_a_sentence():
    q, k, v = inputs()
    o = attention(q.requires_grad_(), k, v)
    with pytest.raises(NotImplementedError) as caught:
        o.sum().backward()
    assert "\n" not in str(caught.value)


def test_replacing_keeps_what_has_gradients_working():
    q, k, v = (x.transpose(1, 2).requires_grad_() for x in inputs())
    theirs = torch.nn.functional.scaled_dot_product_attention
    with regard.torch.replace_sdpa():
        torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).sum().backward()
    wanted = torch.autograd.grad(theirs(q, k, v, enable_gqa=True).sum(), (q, k, v))
    close((q.grad, k.grad, v.grad), wanted)


def test_a_cuda_graph_replays_with_new_inputs_and_new_masks():
    q, k, v = inputs()
    for options in ({}, {"dropout": 0.3}):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            attention(q, k, v, **options)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o = attention(q, k, v, **options)
        graph.replay()
        first = o.clone()
        graph.replay()
        assert torch.equal(first, o) != bool(options)
        q.mul_(2)
        graph.replay()
        if not options:
            close(o, attention(q, k, v))


def test_calls_run_in_the_current_stream():
    q, k, v = inputs()
    expected = attention(q, k, v)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = q * 1
        o = attention(late, k, v)
        done = stream.record_event()
    assert not done.query()  # nothing waited
    stream.synchronize()
    assert torch.equal(o, expected)


def test_generators():
    q, k, v = inputs()
    generator = torch.Generator("cuda").manual_seed(5)
    first = attention(q, k, v, dropout=0.4, generator=generator)
    assert not torch.equal(first, attention(q, k, v, dropout=0.4, generator=generator))
    assert torch.equal(first, attention(q, k, v, dropout=0.4, generator=generator.manual_seed(5)))
    torch.manual_seed(6)
    first = attention(q, k, v, dropout=0.4)
    torch.manual_seed(6)
    assert torch.equal(first, attention(q, k, v, dropout=0.4))
    with pytest.raises(ValueError, match="generator is for cpu"):
        attention(q, k, v, dropout=0.4, generator=torch.Generator())


def test_devices_are_not_mixed():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="k is in host memory"):
        attention(q, k.cpu(), v)
    with pytest.raises(ValueError, match="k is not in host memory"):
        attention(q.cpu(), k, v.cpu())
