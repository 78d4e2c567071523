"""The autograd classes of flash_attn: `apply` with its order of arguments, and their gradients."""

import pytest

torch = pytest.importorskip("torch")
from flash_cases import Case, leaves  # noqa: E402

from regard.flash_attn import flash_attn_interface as two  # noqa: E402
from regard.flash_attn import v3 as three  # noqa: E402
from regard.flash_attn.cute import interface as four  # noqa: E402
from regard.flash_attn.layers import rotary  # noqa: E402

pytestmark = pytest.mark.no_compiler

Q, K, V, GRAD_O = Case(sq=9, sk=9, d=16, hk=4, dtype=torch.float32).numbers()
STARTS = torch.tensor([0, 9, 18], dtype=torch.int32)
ROWS = [tensor.flatten(0, 1) for tensor in (Q, K, V)]
TWO = (0.0, 0.3, True, (4, 0), 5.0, None, False, False)  # dropout_p to return_softmax
SCORES = {"softmax_scale": 0.3, "causal": True, "window_size": (4, 0), "softcap": 5.0}
THREE = (0.3, True, None, None, None, None, (4, 0), 0, 5.0)  # softmax_scale to softcap
FOUR = (0.3, True, (4, 0), None, 5.0)  # softmax_scale to softcap


@pytest.mark.parametrize(
    ("call", "tensors"),
    [
        (lambda q, k, v: two.FlashAttnFunc.apply(q, k, v, *TWO, True), (Q, K, V)),
        (lambda q, kv: two.FlashAttnKVPackedFunc.apply(q, kv, *TWO, True), (Q, torch.stack((K, V), 2))),
        (lambda qkv: two.FlashAttnQKVPackedFunc.apply(qkv, *TWO, True), (torch.stack((Q, K, V), 2),)),
        (lambda q, k, v: two.FlashAttnVarlenFunc.apply(q, k, v, STARTS, STARTS, 9, 9, *TWO, None, True), ROWS),
        (
            lambda q, kv: two.FlashAttnVarlenKVPackedFunc.apply(q, kv, STARTS, STARTS, 9, 9, *TWO, True),
            (ROWS[0], torch.stack(ROWS[1:], 1)),
        ),
        (lambda qkv: two.FlashAttnVarlenQKVPackedFunc.apply(qkv, STARTS, 9, *TWO, True), (torch.stack(ROWS, 1),)),
        (lambda q, k, v: three.FlashAttnFunc.apply(q, k, v, *THREE), (Q, K, V)),
        (
            lambda qkv: three.FlashAttnQKVPackedFunc.apply(qkv, 0.3, True, None, None, None, (4, 0), 0, 5.0),
            (torch.stack((Q, K, V), 2),),
        ),
        (
            lambda q, k, v: three.FlashAttnVarlenFunc.apply(q, k, v, STARTS, STARTS, None, None, 9, 9, *THREE),
            ROWS,
        ),
        (lambda q, k, v: four.FlashAttnFunc.apply(q, k, v, None, None, *FOUR)[0], (Q, K, V)),
        (
            lambda q, k, v: four.FlashAttnVarlenFunc.apply(
                q, k, v, None, STARTS, STARTS, None, None, 9, 9, None, None, None, *FOUR
            )[0],
            ROWS,
        ),
    ],
)
def test_apply(call, tensors):
    expected_of = leaves(Q, K, V)
    expected = two.flash_attn_func(*expected_of, **SCORES)
    expected.backward(GRAD_O)
    given = leaves(*tensors)
    out = call(*given)
    out.backward(GRAD_O.view(out.shape))
    torch.testing.assert_close(out.view(expected.shape), expected)
    found = torch.cat([tensor.grad.flatten() for tensor in given]).sort().values
    torch.testing.assert_close(found, torch.cat([tensor.grad.flatten() for tensor in expected_of]).sort().values)


def test_rotary_embeddings_are_applied():
    cos, sin = torch.rand(9, 4), torch.rand(9, 4)
    packed = torch.stack((Q, K, V), 2)
    assert torch.equal(rotary.ApplyRotaryEmb.apply(Q, cos, sin, True), rotary.apply_rotary_emb(Q, cos, sin, True))
    rotated = rotary.apply_rotary_emb_qkv_(packed.clone(), cos, sin)
    assert torch.equal(rotary.ApplyRotaryEmbQKV_.apply(packed.clone(), cos, sin), rotated)
    rotated = rotary.apply_rotary_emb_kv_(packed[:, :, :2].clone(), cos, sin)
    assert torch.equal(rotary.ApplyRotaryEmbKV_.apply(packed[:, :, :2].clone(), cos, sin), rotated)


def test_a_call_that_is_not_to_be_recorded_is_not():
    assert not two.FlashAttnFunc.apply(*leaves(Q, K, V), *TWO, False).requires_grad


def test_too_many_arguments_are_refused():
    with pytest.raises(TypeError, match="FlashAttnFunc.apply takes at most 12 arguments"):
        two.FlashAttnFunc.apply(Q, K, V, *TWO, True, True)


def test_apply_is_part_of_a_compiled_graph():
    def function(q, k, v):
        return two.FlashAttnFunc.apply(q, k, v, *TWO, True)

    given = leaves(Q, K, V)
    out = torch.compile(function, backend="aot_eager", fullgraph=True)(*given)
    expected = function(*given)
    torch.testing.assert_close(out, expected)
    for found, right in zip(*(torch.autograd.grad(result, given, GRAD_O) for result in (out, expected))):
        torch.testing.assert_close(found, right)
