"""Context parallelism under shard_map: four devices next to one."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, close, normal
from jax.sharding import Mesh, PartitionSpec
from part import part_of
from places import ROOT

import regard.jax

pytestmark = pytest.mark.no_compiler
RANKS = 4
MESH = Mesh(numpy.array(jax.devices()[:RANKS]), ("ranks",))
OFFSETS = 2 * RANKS * jnp.array([0, 2, 2, 5], jnp.int32)
FORMS = {
    "ring": regard.jax.ring_attention,
    "all_gather": regard.jax.all_gather_attention,
    "all_to_all": regard.jax.all_to_all_attention,
}


def sharded(attend, packed=False, **options):
    """(o, lse) of whole sequences, by this form of attention on all devices."""
    on_tokens = PartitionSpec("ranks") if packed else PartitionSpec(None, "ranks")
    of_lse = PartitionSpec(None, "ranks") if packed else PartitionSpec(None, None, "ranks")
    words = {"longest": 24} if packed else {}

    def on_device(q, k, v, offsets):
        given = {"offsets": offsets} if packed else {}
        return attend(q, k, v, axis_name="ranks", lse=True, **given, **words, **options)

    specs = (on_tokens, on_tokens, on_tokens, PartitionSpec())
    mapped = jax.shard_map(on_device, mesh=MESH, in_specs=specs, out_specs=(on_tokens, of_lse))
    order = {"offsets": OFFSETS} if packed else {"axis": 1}
    of_rows = {"offsets": OFFSETS} if packed else {"axis": 2}

    def whole(q, k, v):
        o, lse = mapped(*(regard.jax.deal(x, RANKS, **order) for x in (q, k, v)), OFFSETS)
        lse = regard.jax.undeal(lse.T if packed else lse, RANKS, **of_rows)
        return regard.jax.undeal(o, RANKS, **order), lse.T if packed else lse

    return whole


def outcome(function, inputs, weights):
    """Results, and gradients of a loss that depends on both."""

    def loss(*inputs):
        o, lse = function(*inputs)
        return (o * weights[0]).sum() + (jnp.where(jnp.isfinite(lse), lse, 0.0) * weights[1]).sum(), (o, lse)

    gradients, results = jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(*inputs)
    return *results, *gradients


MASKS = {"full": {}, "causal": {"causal": True}, "window": {"window": (4, 0)}}


CASES = [(f, m, True) for f in FORMS for m in MASKS if (f, m) != ("ring", "window")]


# Dense sequences are computed as packed ones.
DENSE = [("ring", "causal", False), ("all_to_all", "full", False)]


@pytest.mark.parametrize(("form", "mask", "packed"), part_of([*CASES, *DENSE]))
def test_devices_agree_with_one(random, form, mask, packed):
    q, k, v = arrays(random, 2, 8, 4, 3 * 2 * RANKS, 3 * 2 * RANKS, 16, 24)
    words = {}
    if packed:
        q, k, v = (x.reshape(-1, *x.shape[2:])[: int(OFFSETS[-1])] for x in (q, k, v))
        words = {"offsets_q": OFFSETS, "offsets_k": OFFSETS, "sq": 24, "sk": 24}
    o, lse = regard.jax.attention(q, k, v, lse=True, softcap=20.0, **words, **MASKS[mask])
    weights = normal(random, *o.shape), normal(random, *lse.shape)
    one = partial(regard.jax.attention, lse=True, softcap=20.0, **words, **MASKS[mask])
    found = outcome(sharded(FORMS[form], packed, softcap=20.0, **MASKS[mask]), (q, k, v), weights)
    for mine, theirs in zip(found, outcome(one, (q, k, v), weights), strict=True):
        close(mine, theirs)


def test_a_batch_that_is_sharded_as_well(random):
    """Two mesh axes, 16 bits, and keys that all sequences share."""
    mesh = Mesh(numpy.array(jax.devices()[:4]).reshape(2, 2), ("batch", "ranks"))
    q, k, v = arrays(random, 2, 4, 2, 16, 16, 16, dtype="bfloat16")
    of_q, of_k = PartitionSpec("batch", "ranks"), PartitionSpec(None, "ranks")

    def loss(attend, q, k, v):
        return (attend(q, k, v).astype(jnp.float32) ** 2).sum()

    def on_all(q, k, v):
        attend = partial(regard.jax.ring_attention, axis_name="ranks", causal=True)
        mapped = jax.shard_map(attend, mesh=mesh, in_specs=(of_q, of_k, of_k), out_specs=of_q)
        return regard.jax.undeal(mapped(*(regard.jax.deal(x, 2) for x in (q, k, v))), 2)

    def on_one(q, k, v):
        k, v = (jnp.broadcast_to(x, (2, *x.shape[1:])) for x in (k, v))
        return regard.jax.attention(q, k, v, causal=True)

    found, expected = (
        jax.jit(jax.grad(partial(loss, attend), (0, 1, 2)))(q, k[:1], v[:1]) for attend in (on_all, on_one)
    )
    for mine, theirs in zip(found, expected, strict=True):
        close(mine, theirs, "bfloat16")


def test_the_page_s_example_runs():
    page = (ROOT / "docs/context-parallelism.md").read_text()
    (block,) = [x for x in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "jax" in x]
    names = {}
    exec(block, names)

    def loss(q, k, v):
        return (regard.jax.attention(q, k, v, causal=True) ** 2).mean()

    expected = jax.grad(loss, (0, 1, 2))(*(names[name] for name in "qkv"))
    for mine, theirs in zip(names["gradients"], expected, strict=True):
        close(mine, theirs)


def test_dealing_has_an_inverse(random):
    x = normal(random, 1, 16, 3)
    assert regard.jax.deal(jnp.arange(16), 4, axis=0).tolist() == [0, 1, 14, 15, 2, 3, 12, 13, 4, 5, 10, 11, 6, 7, 8, 9]
    assert (regard.jax.undeal(regard.jax.deal(x, 4), 4) == x).all()
    rows = normal(random, int(OFFSETS[-1]), 3)
    dealt = regard.jax.deal(rows, RANKS, offsets=OFFSETS)
    assert (regard.jax.undeal(dealt, RANKS, offsets=OFFSETS) == rows).all() and not (dealt == rows).all()


def test_refusals(random):
    q, k, v = arrays(random, 1, 6, 2, 8, 8, 16)

    def refused(attend, message, error=ValueError, q=q, k=k, v=v, **options):
        call = partial(attend, axis_name="ranks", **options)
        specs = PartitionSpec(None, "ranks") if q.ndim == 4 else PartitionSpec()
        with pytest.raises(error, match=message):
            jax.eval_shape(jax.shard_map(call, mesh=MESH, in_specs=specs, out_specs=specs), q, k, v)

    for name, attend in FORMS.items():
        refused(attend, f"alibi is not an option of {name}_attention", NotImplementedError, alibi=1)
        for word in ({"score": lambda s, *_: s}, {"keep": "kv<=q"}):
            refused(attend, f"{next(iter(word))} is not an option of {name}_attention: a function counts places in wh",
                    NotImplementedError, **word)  # fmt: skip
        refused(attend, r"q has shape \[1, 2, 6, 16\]; it must be \[tokens, heads, dim\]", offsets=OFFSETS)
        refused(attend, "they must have the same numbers of tokens", k=jnp.concatenate((k, k), 1))
        refused(attend, "has 1 tokens of a sequence; causal attention needs two", causal=True, q=q[:, :4], k=k[:, :4],
                v=v[:, :4])  # fmt: skip
        refused(attend, "each sequence must have a multiple of 4 tokens", q=q[0], k=k[0], v=v[0], offsets=[0, 3, 32])
        with pytest.raises(ValueError, match=f"no mesh axis 'ranks' here: call {name}_attention inside shard_map"):
            attend(q, k, v, axis_name="ranks")
    refused(FORMS["all_to_all"], "q has 6 heads, which 4 devices cannot share", NotImplementedError)
    refused(FORMS["all_gather"], "a window of all_gather_attention ends", NotImplementedError, window=(2, 3))
    refused(FORMS["ring"], "window is not an option of ring_attention", NotImplementedError, window=(2, 0))
    with pytest.raises(ValueError, match="x has 5 tokens; 4 devices need a multiple of 8"):
        regard.jax.deal(jnp.zeros((1, 5)), 4)
