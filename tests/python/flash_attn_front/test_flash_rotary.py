"""Rotary embeddings against complex numbers."""

import itertools

import pytest

torch = pytest.importorskip("torch")
from regard.flash_attn.layers.rotary import (  # noqa: E402
    RotaryEmbedding,
    apply_rotary_emb,
    apply_rotary_emb_kv_,
    apply_rotary_emb_qkv_,
    apply_rotary_emb_torch,
)

D, ROTATED, POSITIONS = 20, 12, 40


def tables(dtype=torch.float64):
    angle = torch.outer(torch.arange(POSITIONS), 100 ** -torch.linspace(0, 1, ROTATED // 2)).to(dtype)
    return angle.cos(), angle.sin()


def rotated(x, first, interleaved, back=False):
    """By complex numbers; first: the position of each sequence's first token."""
    cos, sin = tables()
    turn = torch.complex(cos, -sin if back else sin)
    rows = torch.stack([turn[start : start + x.shape[1]] for start in first])[:, :, None]
    part = x[..., :ROTATED]
    pairs = part.unflatten(-1, (-1, 2)) if interleaved else torch.stack(part.chunk(2, -1), -1)
    turned = torch.view_as_real(torch.view_as_complex(pairs.double().contiguous()) * rows)
    turned = turned.flatten(-2) if interleaved else torch.cat(turned.unbind(-1), -1)
    return torch.cat((turned, x[..., ROTATED:].double()), -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("offsets", [0, 7, torch.tensor([3, 0])])
def test_turns_and_its_gradient_turns_back(interleaved, inplace, offsets):
    x = torch.randn(2, 9, 3, D, requires_grad=True)
    cos, sin = tables(torch.float32)
    first = [offsets] * 2 if isinstance(offsets, int) else offsets.tolist()
    given = x.clone()
    out = apply_rotary_emb(given, cos, sin, interleaved, inplace, seqlen_offsets=offsets)
    assert (out.data_ptr() == given.data_ptr()) == inplace
    torch.testing.assert_close(out.double(), rotated(x, first, interleaved), rtol=1e-5, atol=1e-5)
    grad = torch.randn_like(x)
    out.backward(grad)
    torch.testing.assert_close(x.grad.double(), rotated(grad, first, interleaved, back=True), rtol=1e-5, atol=1e-5)


def test_packed_sequences_begin_anew():
    x = torch.randn(16, 2, D)
    starts = torch.tensor([0, 4, 4, 11], dtype=torch.int32)  # and tokens after the last
    cos, sin = tables(torch.float32)
    out = apply_rotary_emb(x, cos, sin, cu_seqlens=starts, max_seqlen=12)
    for first, last in ((0, 4), (4, 11)):
        expected = rotated(x[None, first:last], [0], False)[0]
        torch.testing.assert_close(out[first:last].double(), expected, rtol=1e-5, atol=1e-5)


def test_parts_of_packed_tensors():
    cos, sin = tables(torch.float32)
    qkv = torch.randn(2, 9, 3, 4, D)
    before = qkv.clone()
    assert apply_rotary_emb_qkv_(qkv, cos, sin, interleaved=True) is qkv
    for i in range(2):
        torch.testing.assert_close(qkv[:, :, i].double(), rotated(before[:, :, i], [0, 0], True), rtol=1e-5, atol=1e-5)
    assert torch.equal(qkv[:, :, 2], before[:, :, 2])

    grouped = before.flatten(2, 3)[:, :, :8].clone()  # 4 heads of Q, 2 of K and of V
    apply_rotary_emb_qkv_(grouped, cos, sin, num_heads_q=4)
    expected = rotated(before.flatten(2, 3)[:, :, :6], [0, 0], False)
    torch.testing.assert_close(grouped[:, :, :6].double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(grouped[:, :, 6:], before.flatten(2, 3)[:, :, 6:8])

    kv = before[:, :, 1:].clone().requires_grad_()
    out = apply_rotary_emb_kv_(kv.clone(), cos, sin)
    grad = torch.randn_like(out)
    out.backward(grad)
    torch.testing.assert_close(
        kv.grad[:, :, 0].double(), rotated(grad[:, :, 0], [0, 0], False, True), rtol=1e-5, atol=1e-5
    )
    assert torch.equal(kv.grad[:, :, 1], grad[:, :, 1])


def by_result(rotate, x):
    return rotate(x)


def by_the_tensor_itself(rotate, x):
    x = x * 1
    rotate(x)
    return x * 1


def back(grad, parts):
    """The gradient with respect to the result before these parts of its heads were rotated."""
    grad = grad.double()
    for part in parts:
        grad[:, :, part] = rotated(grad[:, :, part], [0, 0], False, back=True)
    return grad


@pytest.mark.parametrize(
    ("packed", "used", "compiled"),
    [
        *itertools.product(["qkv", "grouped", "kv", "alone"], [by_result, by_the_tensor_itself], [False]),
        *(("qkv", by_result, True), ("grouped", by_the_tensor_itself, True), ("kv", by_result, True)),
    ],
)
def test_in_place_gradients_are_rotated_back(packed, used, compiled):
    cos, sin = tables(torch.float32)
    rotate, shape, parts = {
        "qkv": (lambda x: apply_rotary_emb_qkv_(x, cos, sin), (3, 4), [0, 1]),
        "grouped": (lambda x: apply_rotary_emb_qkv_(x, cos, sin, num_heads_q=4), (8,), [slice(0, 4), slice(4, 6)]),
        "kv": (lambda x: apply_rotary_emb_kv_(x, cos, sin), (2, 4), [0]),
        "alone": (lambda x: apply_rotary_emb(x, cos, sin, inplace=True), (4,), [slice(0, 4)]),
    }[packed]
    before = torch.randn(2, 9, *shape, D)
    leaf = before.clone().requires_grad_()
    torch._dynamo.reset()

    def function(x):
        return used(rotate, x)

    out = (torch.compile(function, backend="aot_eager", fullgraph=True) if compiled else function)(leaf)
    grad = torch.randn_like(out)
    out.backward(grad)
    torch.testing.assert_close(leaf.grad.double(), back(grad, parts), rtol=1e-5, atol=1e-5)
    changed = leaf.detach() if used is by_result else out
    torch.testing.assert_close(changed.double(), rotate(before.clone()).double(), rtol=1e-5, atol=1e-5)


def test_parts_of_unbind_are_rotated_in_place():
    cos, sin = tables(torch.float32)
    leaf = torch.randn(2, 9, 3, 4, D, requires_grad=True)
    q, k, v = (leaf * 1).unbind(2)
    before = k.detach().clone()
    out = torch.stack([apply_rotary_emb(x, cos, sin, inplace=True) for x in (q, k)] + [v], 2)
    torch.testing.assert_close(k.double(), rotated(before, [0, 0], False), rtol=1e-5, atol=1e-5)
    grad = torch.randn_like(out)
    out.backward(grad)
    torch.testing.assert_close(leaf.grad.double(), back(grad, [0, 1]), rtol=1e-5, atol=1e-5)


def test_tables_that_change_before_backward_are_noticed():
    cos, sin = tables(torch.float32)
    out = apply_rotary_emb(torch.randn(2, 9, 3, D, requires_grad=True), cos, sin)
    cos.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize(
    ("rotate", "shape", "options", "sentence"),
    [
        (apply_rotary_emb_qkv_, (2, 9, 8, D), {}, "num_heads_q must say"),
        (apply_rotary_emb_qkv_, (2, 9, 7, D), {"num_heads_q": 4}, "the rest must be as many of K as of V"),
        (apply_rotary_emb_qkv_, (2, 9, 3, 4, D), {"num_heads_q": 2}, "qkv has 4 heads of Q: leave it out"),
        (apply_rotary_emb_qkv_, (2, 9, 2, 4, D), {}, r"it must be \[b, s, 3, h, d\]"),
        (apply_rotary_emb_kv_, (2, 9, 3, 4, D), {}, r"it must be \[b, s, 2, h, d\]"),
    ],
)
def test_packed_tensors_of_another_shape_are_refused(rotate, shape, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        rotate(torch.randn(shape), *tables(), **options)


@pytest.mark.parametrize("interleaved", [False, True])
def test_by_plain_operators(interleaved):
    x = torch.randn(2, 9, 3, D, dtype=torch.float64)
    cos, sin = (table[:9] for table in tables())
    torch.testing.assert_close(apply_rotary_emb_torch(x, cos, sin, interleaved), rotated(x, [0, 0], interleaved))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sin": torch.zeros(POSITIONS, 5)}, r"must be \[positions, rotated / 2\]"),
        ({"cos": torch.zeros(POSITIONS, 11), "sin": torch.zeros(POSITIONS, 11)}, "rotate 22 dimensions and x has 20"),
        ({"seqlen_offsets": 35}, "have 40 positions and the longest sequence needs 44"),
        ({"cu_seqlens": torch.tensor([0, 9])}, "cu_seqlens needs max_seqlen"),
    ],
)
def test_refusals(change, sentence):
    cos, sin = tables()
    with pytest.raises(ValueError, match=sentence):
        apply_rotary_emb(**{"x": torch.randn(2, 9, 3, D), "cos": cos, "sin": sin, **change})


def test_scores_of_a_module_depend_on_distances_alone():
    rotary = RotaryEmbedding(ROTATED, base=100.0)
    q, k = torch.randn(1, 1, 1, D), torch.randn(1, 1, 1, D)
    v = torch.zeros_like(k)

    def score(of_q, of_k):
        kv = torch.stack((k, v), dim=2)
        rotated_q, _ = rotary(q.clone(), kv.clone(), seqlen_offset=of_q)
        _, rotated_kv = rotary(q.clone(), kv.clone(), seqlen_offset=of_k)
        return (rotated_q * rotated_kv[:, :, 0]).sum()

    torch.testing.assert_close(score(9, 5), score(24, 20), rtol=1e-4, atol=1e-5)
    angle = 9 * 100.0 ** (-torch.arange(0, ROTATED, 2) / ROTATED)
    turned, _ = rotary(q.clone(), torch.stack((k, v), dim=2), seqlen_offset=9)
    expected = rotated_by(q, angle)
    torch.testing.assert_close(turned, expected, rtol=1e-5, atol=1e-5)


def rotated_by(x, angle):
    first, second = x[..., : ROTATED // 2], x[..., ROTATED // 2 : ROTATED]
    turned = first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()
    return torch.cat((*turned, x[..., ROTATED:]), -1)


def test_a_module_rotates_packed_tensors_and_scales_as_xpos():
    qkv = torch.randn(2, 9, 3, 2, D)
    plain = RotaryEmbedding(ROTATED)(qkv.clone())
    starts = torch.tensor([4, 0])
    moved = RotaryEmbedding(ROTATED)(qkv.clone(), seqlen_offset=starts, max_seqlen=20)
    assert torch.equal(moved[1], plain[1]) and not torch.equal(moved[0], plain[0])
    xpos = RotaryEmbedding(ROTATED, scale_base=512)(qkv.clone())
    scores = [torch.einsum("bqhd,bqhd->bqh", x[:, :, 0], x[:, :, 1]) for x in (plain, xpos)]
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)  # at distance 0 nothing is scaled
    with pytest.raises(ValueError, match="max_seqlen must say"):
        RotaryEmbedding(ROTATED)(qkv, seqlen_offset=starts)
