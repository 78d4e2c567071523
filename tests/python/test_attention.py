"""Every feature, forward and backward, against the plain fp64 reference and against the library's oracle."""

import itertools

import numpy
import pytest
from part import part_of

import reference
import regard

B, HQ, HK, SQ, SK, D, DV = 2, 4, 2, 37, 65, 24, 40
DRAW = 11


def slopes(random, *shape):
    return random.uniform(0.1, 0.5, shape).astype("float32")


def random_ranges(random, batches):
    low = random.integers(0, SK - 1, (batches, SQ, 1))
    high = low + random.integers(0, 30, (batches, SQ, 1))
    return numpy.concatenate([low, numpy.minimum(high, SK)], axis=2).astype("int32")


def random_bits(random, batches, heads):
    return random.integers(0, 2**32, (batches, heads, SQ, -(-SK // 32)), dtype="uint32")


# name: (options of regard.attention, options of reference.visible, options of reference.Options)
def features(random):
    yield "plain", {}, {}, {}
    yield "causal", {"causal": True}, {"causal": True}, {}
    yield "causal_top_left", {"causal": "top_left"}, {"causal": True, "top_left": True}, {}
    yield "window", {"window": (9, 3)}, {"window": (9, 3)}, {}
    yield "window_of_zero", {"window": (0, 0)}, {"window": (0, 0)}, {}
    yield "window_causal", {"window": (9, -1), "causal": True}, {"window": (9, 0)}, {}
    yield "window_top_left", {"mask": "window:9,3,top_left"}, {"window": (9, 3), "top_left": True}, {}
    yield "sink_tokens", {"window": (5, 0), "sink_tokens": 4}, {"window": (5, 0), "sink_tokens": 4}, {}
    for batches in (1, B):
        ranges = random_ranges(random, batches)
        yield f"ranges_{batches}", {"ranges": ranges}, {"ranges": ranges}, {}
    for batches, heads in ((1, 1), (B, 1), (1, HQ), (B, HQ)):
        bits = random_bits(random, batches, heads)
        yield f"bits_{batches}{heads}", {"bits": bits}, {"bits": bits}, {}
    ranges, bits = random_ranges(random, 1), random_bits(random, 1, 1)
    combined = {"ranges": ranges, "bits": bits, "causal": True}
    yield "masks_combined", combined, combined, {}
    for batches, heads in ((1, 1), (1, HQ), (B, 1), (B, HQ)):
        bias = random.standard_normal((batches, heads, SQ, SK)).astype("float32")
        yield f"bias_{batches}{heads}", {"bias": bias}, {}, {"bias": bias}
    for shape in ((HQ,), (B, HQ)):
        values = slopes(random, *shape)
        yield (
            f"alibi_{len(shape)}",
            {"alibi": values, "causal": True},
            {"causal": True},
            {"bias": reference.alibi(values, B, SQ, SK)},
        )
    yield "softcap", {"softcap": 0.7}, {}, {"softcap": 0.7}
    for batches, heads in ((1, 1), (B, HQ)):
        bias = random.standard_normal((batches, heads, SQ, SK)).astype("float32")
        both = {"softcap": 0.7, "bias": bias}
        yield f"softcap_bias_{batches}{heads}", both, {}, both
    values = slopes(random, HQ)
    capped = {"softcap": 0.7, "bias": reference.alibi(values, B, SQ, SK)}
    yield "softcap_alibi", {"softcap": 0.7, "alibi": values, "causal": True}, {"causal": True}, capped
    sink = random.standard_normal(HQ).astype("float32")
    yield "sink", {"sink": sink, "causal": True}, {"causal": True}, {"sink": sink}
    yield "scale", {"scale": 0.3}, {}, {"scale": 0.3}
    yield "dropout", {"dropout": 0.3, "seed": DRAW, "offset": 5}, {}, {}
    yield "dropout_seed_array", {"dropout": 0.3, "seed": numpy.array([DRAW, 5], "uint64")}, {}, {}
    lengths = numpy.array([SQ, 20], "int32"), numpy.array([50, SK], "int32")
    padded = {"lengths_q": lengths[0], "lengths_k": lengths[1], "causal": True}
    yield "lengths", padded, {"lengths": lengths, "causal": True}, {}


CASES = {name: rest for name, *rest in features(numpy.random.default_rng(7))}


def inputs(random):
    return (
        random.standard_normal(shape).astype("float32")
        for shape in ((B, SQ, HQ, D), (B, SK, HK, D), (B, SK, HK, DV), (B, SQ, HQ, DV))
    )


def heads_first(x):
    return x.swapaxes(1, 2)


def close(actual, expected, tolerance=3e-5):
    numpy.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(1, numpy.abs(expected).max()))


@pytest.mark.parametrize(("name", "family"), part_of(itertools.product(CASES, (None, "generic"))))
def test_forward_and_backward_agree_with_the_reference(name, family, random):
    options, mask, score = CASES[name]
    options = {**options, "family": family}
    q, k, v, grad_o = inputs(random)
    dropout = options.get("dropout", 0.0)
    o, lse, *rest = regard.attention(q, k, v, lse=True, dropout_mask=dropout > 0, **options)

    expected = reference.Options(visible=reference.visible(B, HQ, SQ, SK, **mask), **score)
    if dropout:
        keep = numpy.floor((1 - dropout) * 255)
        expected.kept, expected.keep_probability = rest[0].astype(bool), (keep + 1) / 256
        assert abs(expected.kept.mean() - expected.keep_probability) < 0.02
    expected_o, expected_lse = reference.attention(*map(heads_first, (q, k, v)), expected)
    inside = numpy.ones((B, 1, SQ), bool)
    if "lengths" in mask:
        inside = numpy.arange(SQ)[None, None, :] < mask["lengths"][0][:, None, None]
        assert (heads_first(o)[~numpy.broadcast_to(inside, (B, HQ, SQ))] == 0).all()
    inside = numpy.broadcast_to(inside, (B, HQ, SQ))
    close(heads_first(o)[inside], expected_o[inside])
    close_lse = numpy.isfinite(expected_lse) & inside
    close(lse[close_lse], expected_lse[close_lse])
    assert (lse[inside & ~numpy.isfinite(expected_lse)] == -numpy.inf).all()

    wants_bias = "bias" in options
    grads = regard.attention_backward(grad_o, q, k, v, o, lse, grad_bias=wants_bias, **options)
    grad_o = numpy.where(heads_first(inside[..., None]), grad_o, 0)
    *expected_grads, grad_scores, grad_sink = reference.gradients(*map(heads_first, (grad_o, q, k, v)), expected)
    for actual, correct in zip(grads, expected_grads):
        close(heads_first(actual), correct)
    if wants_bias:
        shape = options["bias"].shape
        over = tuple(axis for axis in (0, 1) if shape[axis] == 1)
        close(grads[3], grad_scores.sum(axis=over, keepdims=True))
    if grad_sink is not None:
        close(grads[-1], grad_sink, 1e-4)


def test_one_query_against_many_keys(random):
    q = random.standard_normal((1, 1, 8, 64)).astype("float32")
    k, v = (random.standard_normal((1, 3001, 2, 64)).astype("float32") for _ in range(2))
    o = regard.attention(q, k, v)
    seen = reference.Options(visible=numpy.ones((1, 8, 1, 3001), bool))
    close(heads_first(o), reference.attention(*map(heads_first, (q, k, v)), seen)[0])


def test_no_keys_gives_zeros_and_minus_infinity(random):
    q = random.standard_normal((1, 5, 2, 16)).astype("float32")
    k = numpy.empty((1, 0, 2, 16), "float32")
    o, lse = regard.attention(q, k, k, lse=True)
    assert (o == 0).all()
    assert (lse == -numpy.inf).all()


@pytest.mark.parametrize("given_maximum", [False, True])
def test_packed_sequences(random, given_maximum):
    lengths_q, lengths_k = [5, 0, 33, 1], [9, 4, 33, 0]
    offsets_q, offsets_k = (numpy.cumsum([0, *lengths]).astype("int32") for lengths in (lengths_q, lengths_k))
    q = random.standard_normal((offsets_q[-1], HQ, D)).astype("float32")
    k = random.standard_normal((offsets_k[-1], HK, D)).astype("float32")
    v = random.standard_normal((offsets_k[-1], HK, DV)).astype("float32")
    grad_o = random.standard_normal((offsets_q[-1], HQ, DV)).astype("float32")
    options = {"offsets_q": offsets_q, "offsets_k": offsets_k, "causal": True}
    if given_maximum:
        options.update(sq=40, sk=64)
    o, lse = regard.attention(q, k, v, lse=True, **options)
    grads = regard.attention_backward(grad_o, q, k, v, o, lse, **options)
    for i, (sq, sk) in enumerate(zip(lengths_q, lengths_k)):
        rows, keys = slice(offsets_q[i], offsets_q[i + 1]), slice(offsets_k[i], offsets_k[i + 1])
        alone = [heads_first(x[None]) for x in (q[rows], k[keys], v[keys])]
        seen = reference.Options(visible=reference.visible(1, HQ, sq, sk, causal=True))
        expected_o, expected_lse = reference.attention(*alone, seen)
        if sq == 0:
            continue
        close(o[rows].swapaxes(0, 1), expected_o[0])
        numpy.testing.assert_allclose(lse[:, rows], expected_lse[0], rtol=3e-5, atol=3e-5)
        correct = reference.gradients(heads_first(grad_o[rows][None]), *alone, seen)
        for actual, expected in zip((grads[0][rows], grads[1][keys], grads[2][keys]), correct):
            if expected.size:
                close(actual.swapaxes(0, 1), expected[0])


def test_check_accepts_right_results_and_names_wrong_ones(random):
    q, k, v, _ = inputs(random)
    problem = regard.Problem(f"fwd fp32 b={B} hq={HQ} hk={HK} sq={SQ} sk={SK} d={D} dv={DV} mask=causal lse")
    o, lse = regard.attention(q, k, v, causal=True, lse=True)
    assert regard.check(problem, q=q, k=k, v=v, o=o, lse=lse)["ok"] is True
    o[1, 3, 2, 5] += 1e-2
    assert regard.check(problem, q=q, k=k, v=v, o=o, lse=lse)["ok"] is False


def test_deterministic_backward_gives_the_same_bits(random):
    q, k, v, grad_o = inputs(random)
    o, lse = regard.attention(q, k, v, lse=True)
    first, second = (regard.attention_backward(grad_o, q, k, v, o, lse, deterministic=True) for _ in range(2))
    for left, right in zip(first, second):
        assert (left == right).all()


def test_plan_run_equals_attention(random):
    q, k, v, _ = inputs(random)
    plan = regard.plan(f"fwd fp32 b={B} hq={HQ} hk={HK} sq={SQ} sk={SK} d={D} dv={DV}")
    plan.prepare()
    o = numpy.empty((B, SQ, HQ, DV), "float32")
    plan.run(q=q, k=k, v=v, o=o)
    assert (o == regard.attention(q, k, v)).all()
    own = numpy.empty(plan.workspace_bytes + 64, "uint8")
    own = own[-own.ctypes.data % 64 :]
    again = numpy.empty_like(o)
    plan.run(q=q, k=k, v=v, o=again, workspace=own)
    assert (o == again).all()
