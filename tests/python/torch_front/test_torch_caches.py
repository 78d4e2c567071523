"""KV caches in PyTorch: append, attention on pages, and both in compiled graphs."""

import math

import pytest

torch = pytest.importorskip("torch")
import cached  # noqa: E402
import regard  # noqa: E402
import regard.torch  # noqa: E402
from cached import Cache, ints, numbers  # noqa: E402

HK, D = 2, 16
LENGTHS, TABLE = ints(5, 0, 11), ints([2, 7, -1, -1], [1, -1, -1, -1], [0, 3, 6, 5])


def cache(**options):
    return Cache(numbers(1, 8, 4, HK, D), numbers(2, 8, 4, HK, D), LENGTHS, TABLE, **options)


def written(k_new, v_new, **options):
    """The same cache after append."""
    made = cache(**options)
    for sequence in range(3):
        made.write(sequence, k_new[sequence], v_new[sequence])
    return made


NEW = numbers(3, 3, 3, HK, D), numbers(4, 3, 3, HK, D)


def attended(made, q, **masks):
    results = [cached.attention(q[i], *made.read(i), **masks) for i in range(3)]
    return torch.stack([torch.from_numpy(o) for o, _ in results])


def test_append_changes_the_cache_and_its_version():
    made, expected = cache(), written(*NEW)
    version = made.k._version
    assert regard.torch.append(made.k, made.v, *NEW, lengths_k=LENGTHS, page_table=TABLE) is None
    assert torch.equal(made.k, expected.k) and torch.equal(made.v, expected.v)
    assert made.k._version > version


@pytest.mark.parametrize("wide", [False, True])
def test_append_at_slots_of_which_some_are_none(wide):
    made, slots = cache(), torch.tensor([9, -1, 30, 0], dtype=torch.int64 if wide else torch.int32)
    k_new, v_new = numbers(5, 4, HK, D), numbers(6, 4, HK, D)
    expected = made.k.clone(), made.v.clone()
    for rows, new in zip(expected, (k_new, v_new)):
        rows.flatten(0, 1)[slots[slots >= 0]] = new[slots >= 0]
    regard.torch.append(made.k, made.v, k_new, v_new, slots=slots, paged=4)
    assert torch.equal(made.k, expected[0]) and torch.equal(made.v, expected[1])


def test_append_of_packed_tokens_rotated_at_their_positions():
    made, expected, counts = cache(), cache(), [3, 1, 2]
    cos, sin = numbers(7, 24, 4), numbers(8, 24, 4)
    k, v = (numbers(i, 6, HK, D) for i in (5, 6))
    for i, (keys, values) in enumerate(zip(k.split(counts), v.split(counts))):
        positions = [int(LENGTHS[i]) + j for j in range(counts[i])]
        expected.write(i, cached.rotated(keys, positions, cos, sin, False).float(), values)
    regard.torch.append(
        *(made.k, made.v, k, v),
        lengths_k=LENGTHS,
        page_table=TABLE,
        offsets_new=ints(0, 3, 4, 6),
        rope="half",
        rope_cos=cos,
        rope_sin=sin,
    )
    torch.testing.assert_close(made.k, expected.k)
    assert torch.equal(made.v, expected.v)


def test_append_writes_factors_of_tokens():
    k, v = (torch.zeros(8, 4, HK, D, dtype=torch.int8) for _ in range(2))
    factors = [torch.zeros(8, 4, HK) for _ in range(2)]
    regard.torch.append(
        *(k, v, *NEW),
        lengths_k=LENGTHS,
        page_table=TABLE,
        descale="token",
        descale_k=factors[0],
        descale_v=factors[1],
    )
    expected = written(*NEW)
    for sequence in range(3):
        for row in range(int(LENGTHS[sequence]), int(LENGTHS[sequence]) + 3):
            place = expected.place(sequence, row)
            for small, factor, right in zip((k, v), factors, (expected.k, expected.v)):
                found = small[place].float() * factor[place][:, None]
                assert (found - right[place]).abs().max() <= right[place].abs().max() / 127


def test_attention_on_pages():
    q, made = numbers(9, 3, 2, 4, D), cache().with_unused_rows(math.nan)
    o = regard.torch.attention(q, made.k, made.v, lengths_k=LENGTHS, page_table=TABLE, causal=True)
    torch.testing.assert_close(o.double(), attended(made, q, causal=True), rtol=1e-4, atol=1e-4)


def append_and_attend(q, k, v, k_new, v_new, lengths, table):
    regard.torch.append(k, v, k_new, v_new, lengths_k=lengths, page_table=table)
    return regard.torch.attention(q, k, v, lengths_k=lengths + k_new.shape[1], page_table=table)


def attend_with_new(q, k, v, k_new, v_new, lengths, table):
    options = {"k_new": k_new, "v_new": v_new, "lengths_k": lengths, "page_table": table}
    return regard.torch.attention(q, k, v, **options)


@pytest.mark.parametrize("step", [append_and_attend, attend_with_new])
def test_a_compiled_step_changes_the_cache(step):
    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    q, expected, made = numbers(9, 3, 3, 4, D), cache(), cache()
    right = step(q, expected.k, expected.v, *NEW, LENGTHS, TABLE)
    torch.testing.assert_close(right.double(), attended(written(*NEW), q), rtol=1e-4, atol=1e-4)
    assert torch.equal(compiled(q, made.k, made.v, *NEW, LENGTHS, TABLE), right)
    assert torch.equal(made.k, expected.k) and torch.equal(made.v, expected.v)


def test_the_operators_are_sound():
    made = cache()
    options = [[LENGTHS, TABLE], [], [], "{'lengths_k': 'tensor', 'page_table': 'tensor'}"]
    inputs = made.k, made.v, *NEW, None, None, *options
    tests = ["test_schema", "test_faketensor"]
    torch.library.opcheck(torch.ops.regard.append.default, inputs, test_utils=tests)
    torch.library.opcheck(
        torch.ops.regard.attention_appended.default, (numbers(9, 3, 3, 4, D), *inputs), test_utils=tests
    )


def test_autocast_leaves_the_cache_as_it_is():
    made, expected = cache(), written(*NEW)
    with torch.autocast("cpu", torch.bfloat16):
        o = regard.torch.attention(
            *(numbers(9, 3, 3, 4, D), made.k, made.v),
            k_new=NEW[0],
            v_new=NEW[1],
            lengths_k=LENGTHS,
            page_table=TABLE,
        )
    assert o.dtype == torch.float32 and torch.equal(made.k, expected.k)


def test_what_is_no_tensor():
    made = cache()
    with pytest.raises(TypeError, match="k_new is of type ndarray; regard.torch takes tensors"):
        regard.torch.append(made.k, made.v, NEW[0].numpy(), NEW[1], lengths_k=LENGTHS, page_table=TABLE)


def test_new_tokens_that_are_no_tensors():
    made, q = cache(), numbers(1, 2, 1, 4, 16)
    for wrong in ("tokens", None):
        with pytest.raises(TypeError, match=f"v_new is of type {type(wrong).__name__}; regard.torch takes tensors"):
            regard.torch.attention(q, made.k, made.v, k_new=q, v_new=wrong)
    with pytest.raises(TypeError, match="generator is of type int; it must be a torch.Generator"):
        regard.torch.attention(q, q, q, generator=3)


def test_gradients_are_refused():
    made, q = cache(), numbers(9, 3, 3, 4, D).requires_grad_()
    words = {"lengths_k": LENGTHS, "page_table": TABLE}
    with pytest.raises(NotImplementedError, match="autograd does not record that new tokens are written"):
        regard.torch.attention(q, made.k, made.v, k_new=NEW[0], v_new=NEW[1], **words)
    with pytest.raises(NotImplementedError, match="autograd does not record that new tokens"):
        regard.torch.append(made.k, made.v, NEW[0].clone().requires_grad_(), NEW[1], **words)
    with pytest.raises(ValueError, match="a KV cache is for fwd and append"):
        regard.torch.attention(q, made.k, made.v, **words).sum().backward()


def test_merge_of_halves_is_the_whole():
    q, k, v = numbers(1, 2, 5, 4, D), numbers(2, 2, 12, HK, D), numbers(3, 2, 12, HK, D)
    whole = regard.torch.attention(q, k, v, lse=True)
    parts = [regard.torch.attention(q, k[:, some], v[:, some], lse=True) for some in (slice(0, 5), slice(5, 12))]
    o, lse = (torch.stack(some) for some in zip(*parts))
    for one, other in zip(regard.merge(o, lse), whole):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    (o0, o1), (lse0, lse1) = o, lse
    found = regard.merge(o1[None], lse1[None], out=o0, lse=lse0, accumulate=True)
    assert found[0] is o0 and found[1] is lse0
    torch.testing.assert_close(o0, whole[0], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="accumulate changes o and lse in place: give both"):
        regard.merge(o, lse, accumulate=True)
    with pytest.raises(ValueError, match=r"they must be \[parts, b, s, h, dv\] and \[parts, b, h, s\]"):
        regard.merge(o, lse[0])


@pytest.mark.no_compiler
def test_no_packed_tokens_and_no_packed_queries():
    made, expected = cache(), cache()
    none = NEW[0].flatten(0, 1)[:0]
    regard.torch.append(made.k, made.v, none, none.clone(), slots=torch.zeros(0, dtype=torch.int64), paged=4)
    starts = ints(0, 0, 0, 0)
    regard.torch.append(made.k, made.v, none, none.clone(), offsets_new=starts, lengths_k=LENGTHS, page_table=TABLE)
    assert torch.equal(made.k, expected.k) and torch.equal(made.v, expected.v)
    with pytest.raises(regard.InvalidError, match="unknown option 'slot'"):
        regard.torch.append(made.k, made.v, none, none, slot=none)
    q = numbers(9, 0, 4, D)
    options = {"offsets_q": starts, "sq": 4, "lengths_k": LENGTHS, "page_table": TABLE, "lse": True}
    o, lse = regard.torch.attention(q, made.k, made.v, **options)
    assert o.shape == q.shape and lse.shape == (4, 0)
