"""The arguments of transformers' attention calls: computed, known to be harmless, or refused."""

import ast
import inspect
import itertools
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from transformers.modeling_flash_attention_utils import FlashAttentionKwargs  # noqa: E402
from transformers.utils.generic import TransformersKwargs  # noqa: E402

from regard.errors import RefusedError  # noqa: E402
from regard.torch.transformers.arguments import HARMLESS  # noqa: E402
from regard.torch.transformers.attention import attention_forward  # noqa: E402
from regard.torch.transformers.making import mask_of  # noqa: E402

KNOWN = {*inspect.signature(attention_forward).parameters, *HARMLESS}


def keywords_of_calls(source):
    """The keywords of calls to the functions that a module takes from transformers' registry of attention functions."""
    for name in set(re.findall(r"^ +(\w+)(?:: Callable)? = ALL_ATTENTION_FUNCTIONS", source, re.MULTILINE)):
        for found in re.finditer(rf"\b{name}\(", source):
            depths = itertools.accumulate((c == "(") - (c == ")") for c in source[found.end() - 1 :])
            call = source[found.start() : found.end() + next(at for at, depth in enumerate(depths) if depth == 0)]
            yield from (keyword.arg for keyword in ast.parse(call).body[0].value.keywords if keyword.arg)


def test_what_every_model_passes_is_known():
    found = {}
    for file in Path(transformers.__file__).parent.glob("models/*/modeling_*.py"):
        for keyword in keywords_of_calls(file.read_text()):
            found.setdefault(keyword, file.name)
    assert {"scaling", "dropout", "indices", "sinks", "cu_seq_lens_q"} <= found.keys()
    assert {keyword: file for keyword, file in found.items() if keyword not in KNOWN} == {}


def test_what_transformers_declares_for_all_models_is_known():
    assert {*TransformersKwargs.__annotations__, *FlashAttentionKwargs.__annotations__} <= KNOWN


def qkv(batch=1, rows=11, keys=11, heads=4, kv_heads=2, dim=16):
    generator = torch.Generator().manual_seed(5)
    sizes = (batch, heads, rows, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, dim)
    return [torch.randn(size, generator=generator, requires_grad=True) for size in sizes]


def expected(q, k, v, seen, bias=0.0, sinks=None):
    """Computed by PyTorch, [b, q, hq, dv]."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q @ k.mT / q.shape[-1] ** 0.5 + bias).masked_fill(~seen, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks], -1)
    return (scores.softmax(-1)[..., : k.shape[2]] @ v).transpose(1, 2)


def same(ours, theirs, *inputs):
    """Results, and gradients of a sum of them."""
    weights = torch.randn(ours.shape)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    found = torch.autograd.grad((ours * weights).sum(), inputs)
    for gradient, other in zip(found, torch.autograd.grad((theirs * weights).sum(), inputs), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4)


def causal(batch=1, rows=11):
    return mask_of(batch, rows, rows), torch.ones(rows, rows, dtype=torch.bool).tril()


class Module(torch.nn.Module):
    class indexer:
        block_size = 4


def test_keys_that_a_query_chose():
    q, k, v = qkv(batch=2)
    mask, seen = causal(batch=2)
    indices = torch.rand(2, 11, 11).argsort(-1)[..., :4].to(torch.int32)
    indices[..., 0] = 0
    chosen = torch.zeros(2, 11, 11, dtype=torch.bool).scatter(-1, indices.long(), True)[:, None]
    same(attention_forward(None, q, k, v, mask, indices=indices)[0], expected(q, k, v, seen & chosen), q, k, v)


def test_blocks_of_keys_that_a_query_chose():
    q, k, v = qkv()
    mask, seen = causal()
    blocks = torch.tensor([[0, -1], [0, 1]])[:, None].expand(2, 11, 2)[None]  # for each of two groups of heads
    first = torch.arange(11) < 4
    chosen = torch.stack([first, first, torch.arange(11) < 8, torch.arange(11) < 8])[None, :, None]
    found, _ = attention_forward(Module(), q, k, v, mask, block_indices=blocks)
    same(found, expected(q, k, v, seen & chosen), q, k, v)


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_sink_of_each_query(with_bias):
    q, k, v = qkv()
    mask, seen = causal()
    sinks = torch.randn(1, 4, 11, 1, requires_grad=True)
    bias = torch.randn(1, 4, 11, 11, requires_grad=True) if with_bias else None
    found, _ = attention_forward(None, q, k, v, mask, sinks=sinks, position_bias=bias)
    inputs = (q, k, v, sinks, bias) if with_bias else (q, k, v, sinks)
    same(found, expected(q, k, v, seen, 0.0 if bias is None else bias, sinks), *inputs)


BEGINS = torch.tensor([0, 4, 9, 11], dtype=torch.int32)
OF_SEQUENCE = torch.repeat_interleave(torch.arange(3), torch.tensor([4, 5, 2]))
PACKED = {"cu_seq_lens_q": BEGINS, "cu_seq_lens_k": BEGINS, "max_length_q": 5, "max_length_k": 5}


@pytest.mark.parametrize("kind", ["not causal", "causal", "mask", "booleans"])
def test_packed_sequences_do_not_see_each_other(kind):
    q, k, v = qkv()
    mask, before = causal()
    mask, is_causal, seen = {
        "not causal": (None, False, torch.ones_like(before)),
        "causal": (None, True, before),
        "mask": (mask, None, before),
        "booleans": (before[None, None], False, before),
    }[kind]
    same_sequence = OF_SEQUENCE[:, None] == OF_SEQUENCE
    found, _ = attention_forward(None, q, k, v, mask, is_causal=is_causal, **PACKED)
    same(found, expected(q, k, v, seen & same_sequence), q, k, v)


REFUSED = [
    ({"tomorrow": 1}, "attention was given tomorrow=, which is not computed here"),
    ({"tomorrow": False}, "attention was given tomorrow="),
    ({"cu_seq_lens_q": BEGINS}, "give both, or none"),
    ({"max_length_k": 5}, "give both, or none"),
    (PACKED, "is_causal must say"),
    ({"output_attentions": True}, "attn_implementation='eager'"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED)
def test_the_rest_is_refused(arguments, sentence):
    with pytest.raises(RefusedError, match=sentence):
        attention_forward(None, *qkv(), None, **arguments)


def test_what_is_harmless_is_taken():
    q, k, v = qkv()
    harmless = dict.fromkeys(HARMLESS, True)
    found, _ = attention_forward(
        None, q, k, v, None, tomorrow=None, is_causal=True, output_attentions=False, **harmless
    )
    same(found, expected(q, k, v, torch.ones(11, 11, dtype=torch.bool)), q, k, v)
