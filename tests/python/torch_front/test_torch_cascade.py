"""cascade_attention next to attention on all keys of each sequence."""

import pytest

torch = pytest.importorskip("torch")
import regard.torch  # noqa: E402
from cached import ints, numbers  # noqa: E402

cascade_attention = regard.torch.cascade_attention
HQ, HK, D, PAGE = 4, 2, 16, 4
OWN = (5, 0, 9)  # own keys of each sequence
QUERIES = (3, 0, 2)  # of packed sequences
PAGES = ints([2, 7, -1], [-1, -1, -1], [0, 3, 6])
TABLE = ints(8, 5, 1)  # of the prefix


def pool(dtype=torch.float32):
    return [numbers(seed, 10, PAGE, HK, D).to(dtype) for seed in (1, 2)]


def rows(cache, table, length):
    pages = [cache[page] for page in table[: -(-length // PAGE)].tolist()]
    return torch.cat(pages)[:length] if pages else cache[0, :0]


def expected(qs, prefix, own, **options):
    """Results of each sequence: [sq, hq, d] and [hq, sq]."""
    found = []
    for i, q in enumerate(qs):
        k, v = (torch.cat((of_prefix, of_own[i]))[None] for of_prefix, of_own in zip(prefix, own))
        o, lse = regard.torch.attention(q[None], k, v, lse=True, **options)
        found.append((o[0], lse[0]))
    return found


def close(found, wanted):
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)


def own_of(k, v):
    return [[rows(cache, PAGES[i], OWN[i]) for i in range(3)] for cache in (k, v)]


def spoilt(cache, length):
    """NaN in rows of the pool that no sequence and no prefix of this length has."""
    used = torch.zeros(10, PAGE, dtype=torch.bool)
    for table, count in ((TABLE, length), *zip(PAGES, OWN)):
        for row in range(count):
            used[table[row // PAGE], row % PAGE] = True
    return torch.where(used[..., None, None], cache, torch.nan)


@pytest.mark.parametrize("length", [0, 1, 9, 12])
@pytest.mark.parametrize("kind", ["pool", "pages", "dense"])
def test_decode_of_pages(kind, length):
    k, v = (spoilt(cache, length) for cache in pool())
    q = numbers(3, 3, 1, HQ, D)
    prefix = [rows(cache, TABLE, length) for cache in (k, v)]
    given = {
        "pool": {"prefix_table": TABLE, "prefix_length": ints(length)},
        "pages": {"prefix_table": TABLE, "prefix_length": ints(length), "prefix_k": k.clone(), "prefix_v": v.clone()},
        "dense": {"prefix_k": prefix[0], "prefix_v": prefix[1]},
    }[kind]
    o, lse = cascade_attention(q, k, v, page_table=PAGES, lengths_k=ints(*OWN), lse=True, **given)
    for i, of_one in enumerate(expected(q, prefix, own_of(k, v))):
        close((o[i], lse[i]), of_one)


@pytest.mark.parametrize("length", [0, 9])
@pytest.mark.parametrize("kind", ["pool", "dense"])
def test_packed_queries(kind, length):
    """Chunks of prompts and decoded tokens; two rows follow the last token, and are not written."""
    k, v = (spoilt(cache, length) for cache in pool())
    q, offsets = numbers(3, 7, HQ, D), ints(0, 3, 3, 5)
    prefix = [rows(cache, TABLE, length) for cache in (k, v)]
    given = {"prefix_table": TABLE} if kind == "pool" else dict(zip(("prefix_k", "prefix_v"), (k[0], v[0])))
    if kind == "dense":
        given = {name: torch.cat((x, numbers(4, 3, HK, D))) for name, x in zip(("prefix_k", "prefix_v"), prefix)}
    out = torch.full_like(q, 7.0)
    o, lse = cascade_attention(
        q, k, v, offsets_q=offsets, sq=3, page_table=PAGES, lengths_k=ints(*OWN), causal=True, softcap=20.0, lse=True,
        out=out, prefix_length=ints(length), **given,
    )  # fmt: skip
    assert o is out and (o[5:] == 7).all()
    some = [slice(offsets[i], offsets[i + 1]) for i in range(3)]
    for i, of_one in enumerate(expected([q[at] for at in some], prefix, own_of(k, v), causal=True, softcap=20.0)):
        close((o[some[i]], lse[:, some[i]]), of_one)


def test_new_tokens_and_a_sink():
    k, v = pool()
    q, k_new, v_new, sink = numbers(3, 3, 2, HQ, D), *numbers(4, 2, 3, 2, HK, D), numbers(5, HQ)
    words = {"page_table": torch.where(PAGES < 0, 9, PAGES), "lengths_k": ints(*OWN)}
    o = cascade_attention(q, k, v, prefix_table=TABLE, k_new=k_new, v_new=v_new, causal=True, sink=sink, **words)
    own = [[torch.cat((rows(x, PAGES[i], OWN[i]), new[i])) for i in range(3)] for x, new in zip((k, v), (k_new, v_new))]
    prefix = [rows(cache, TABLE, 12) for cache in (k, v)]
    for i, (one, _) in enumerate(expected(q, prefix, own, causal=True, sink=sink)):
        close((o[i],), (one,))


def test_a_cache_of_8_bits():
    k, v = (torch.randint(-127, 127, (10, PAGE, HK, D), dtype=torch.int8) for _ in "kv")
    q, factors = numbers(3, 3, 1, HQ, D), (torch.tensor([0.01]), torch.tensor([0.02]))
    words = {"page_table": PAGES, "lengths_k": ints(*OWN), "descale_k": factors[0], "descale_v": factors[1]}
    o = cascade_attention(q, k, v, prefix_table=TABLE, **words)
    wide = [cache * factor for cache, factor in zip((k, v), factors)]
    for i, (one, _) in enumerate(expected(q, [rows(cache, TABLE, 12) for cache in wide], own_of(*wide))):
        close((o[i],), (one,))


def test_dense_keys_have_gradients():
    q, k, v = numbers(1, 2, 5, HQ, D), numbers(2, 2, 5, HK, D), numbers(3, 2, 5, HK, D)
    prefix = numbers(4, 7, HK, D), numbers(5, 7, HK, D)
    leaves = [x.requires_grad_() for x in (q, k, v, *prefix)]

    def whole(q, k, v, prefix_k, prefix_v):
        k, v = (torch.cat((x.expand(2, -1, -1, -1), own), 1) for x, own in ((prefix_k, k), (prefix_v, v)))
        return regard.torch.attention(q, k, v, causal=True, lse=True)

    def packed(q, k, v, prefix_k, prefix_v):
        offsets = ints(0, 5, 10)
        words = {"offsets_q": offsets, "offsets_k": offsets, "sq": 5, "sk": 5}
        flat = [x.flatten(0, 1) for x in (q, k, v)]
        o, lse = cascade_attention(*flat, prefix_k=prefix_k, prefix_v=prefix_v, causal=True, lse=True, **words)
        return o.unflatten(0, (2, 5)), lse.unflatten(1, (2, 5)).transpose(0, 1)

    def dense(q, k, v, prefix_k, prefix_v):
        return cascade_attention(q, k, v, prefix_k=prefix_k, prefix_v=prefix_v, causal=True, lse=True)

    def outcome(function):
        o, lse = function(*leaves)
        return o, lse, *torch.autograd.grad(o.square().sum() + lse.square().sum(), leaves)

    for function in (dense, packed):
        for one, other in zip(outcome(function), outcome(whole)):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_it_compiles_without_a_graph_break():
    k, v = pool(torch.bfloat16)
    q = numbers(3, 3, 1, HQ, D).bfloat16()

    def call(q, k, v, lengths, length):
        words = {"page_table": PAGES, "lengths_k": lengths, "prefix_table": TABLE, "prefix_length": length}
        return cascade_attention(q, k, v, **words)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v, ints(*OWN), ints(9)), call(q, k, v, ints(*OWN), ints(9)))


def test_no_pages_of_a_prefix():
    k, v = pool()
    q, words = numbers(3, 3, 1, HQ, D), {"page_table": PAGES, "lengths_k": ints(*OWN)}
    o = cascade_attention(q, k, v, prefix_table=TABLE[:0], **words)
    assert torch.equal(o, regard.torch.attention(q, k, v, **words))


def test_refusals():
    k, v = pool()
    q, words = numbers(3, 3, 1, HQ, D), {"page_table": PAGES, "lengths_k": ints(*OWN)}
    for name, option in (("window", (3, 0)), ("alibi", numbers(1, HQ)), ("dropout", 0.1), ("layout", "bhsd")):
        with pytest.raises(NotImplementedError, match=f"{name} is not an option of cascade_attention: call attention"):
            cascade_attention(q, k, v, prefix_table=TABLE, **words, **{name: option})
    for missing in ({}, {"prefix_length": ints(3)}):
        with pytest.raises(ValueError, match="the prefix is missing: give prefix_table, where k and v are pages"):
            cascade_attention(q, k, v, **words, **missing)
    with pytest.raises(ValueError, match="prefix_k and prefix_v are the keys and values of one prefix: give both"):
        cascade_attention(q, k, v, prefix_k=k, **words)
    with pytest.raises(ValueError, match=r"they must be \[s, hk, d\] and \[s, hk, dv\], or, with prefix_table"):
        cascade_attention(q, k, v, prefix_k=k, prefix_v=v, **words)
    with pytest.raises(ValueError, match=r"prefix_table has shape \[3, 3\]; it must be \[n\]"):
        cascade_attention(q, k, v, prefix_table=PAGES, **words)
    with pytest.raises(ValueError, match=r"prefix_length has shape \[3\]; it must be \[1\]"):
        cascade_attention(q, k, v, prefix_table=TABLE, prefix_length=ints(*OWN), **words)
    factors = numbers(1, 3, HK)
    with pytest.raises(
        NotImplementedError, match="descale_k describes the pages of k and v, and prefix_k is a tensor of its own"
    ):
        cascade_attention(q, k, v, prefix_k=k[0], prefix_v=v[0], descale_k=factors, **words)
    with pytest.raises(NotImplementedError, match=r"descale_k has shape \[3, 2\], factors for each sequence"):
        cascade_attention(q, k, v, prefix_table=TABLE, descale_k=factors, **words)
    with pytest.raises(TypeError, match="prefix_table is of type list; regard.torch takes tensors"):
        cascade_attention(q, k, v, prefix_table=[1], **words)
