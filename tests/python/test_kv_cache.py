"""The problem of a call with a KV cache, as its arrays and options say it. Kernels have tests of their own."""

import numpy
import pytest

import regard
from regard.request import read

HALF = "float16"


def array(*shape, dtype=HALF):
    return numpy.zeros(shape, dtype)


def ints(*values, dtype="int32"):
    return numpy.array(values, dtype)


def text(q, k, v=None, pass_="fwd", **options):
    """The words of the problem but those of q's sizes: b=2, or packed tq=5, hq=4 and d=16."""
    problem = regard.Problem(read(pass_, {"q": q, "k": k, "v": k if v is None else v}, options, {}).text)
    of_q = {"fwd", "fp16", "b=2", "hq=4", "d=16", "sq=3", "varlen", "tq=5"}
    return " ".join(word for word in problem.text.split() if word not in of_q)


def text_of_append(k, k_new, **options):
    """The words of the problem but those of its type and of d=16."""
    inputs = {"k": k, "v": k, "k_new": k_new, "v_new": k_new}
    problem = regard.Problem(read("append", inputs, options, {}).text)
    return " ".join(word for word in problem.text.split() if word not in {"append", "fp16", "d=16", "sq=0"})


DENSE, PACKED = array(2, 3, 4, 16), array(5, 4, 16)
STARTS = {"offsets_q": ints(0, 2, 5), "sq": 3}
LENGTHS = {"lengths_k": ints(7, 9)}
PAGES = array(9, 7, 2, 16)
TABLE = {"page_table": ints(*range(6)).reshape(2, 3), **LENGTHS}


@pytest.mark.parametrize(("q", "starts"), [(DENSE, {}), (PACKED, STARTS)])
def test_a_page_table_says_that_keys_are_pages(q, starts):
    assert text(q, PAGES, **TABLE, **starts) == "hk=2 sk=21 lengths paged=7 pages=9"
    assert text(q, PAGES, **TABLE, **starts, sk=20) == "hk=2 sk=20 lengths paged=7 pages=9"
    assert text(q, PAGES, array(9, 7, 2, 8), **TABLE, **starts) == "hk=2 sk=21 dv=8 lengths paged=7 pages=9"


def test_pages_follow_the_layout():
    q, pages = array(2, 4, 3, 16), array(9, 2, 7, 16)
    words = "hk=2 sk=21 lengths paged=7 pages=9 layout=bhsd"
    assert text(q, pages, **TABLE, layout="bhsd") == words
    new = array(2, 2, 1, 16)
    assert text(q, pages, **TABLE, layout="bhsd", k_new=new, v_new=new).replace(" snew=1", "") == words


def test_vectorized_pages():
    k, v = array(9, 2, 2, 64), array(9, 2, 1, 256)  # pages of 8 rows, 8 elements in 16 bytes
    words = text(DENSE, k, v, **TABLE, kv_layout="vectorized")
    assert words == "hk=2 sk=24 dv=32 lengths kv_layout=vectorized paged=8 pages=9"
    k, v = array(9, 2, 1, 256, dtype="int8"), array(9, 2, 1, 256, dtype="int8")  # 16 rows, 16 elements
    words = text(DENSE, k, v, **TABLE, kv_layout="vectorized", descale="page")
    assert words == "hk=2 sk=48 kv=int8 lengths descale=page kv_layout=vectorized paged=16 pages=9"
    with pytest.raises(ValueError, match="has its own order of axes: leave layout='bhsd' out"):
        text(array(2, 4, 3, 16), k, v, **TABLE, kv_layout="vectorized", layout="bhsd")


def test_a_page_list():
    pages = {"page_list": ints(4, 2, 0, 8), "last_page_lengths": ints(3, 7)}
    offsets = {"page_offsets": ints(0, 1, 4)}
    assert text(DENSE, PAGES, **pages, **offsets) == "hk=2 sk=21 table=sglang paged=7 pages=9"
    assert text(DENSE, PAGES, **pages, **offsets, sk=99) == "hk=2 sk=99 table=sglang paged=7 pages=9"
    request = read("fwd", {"q": DENSE, "k": PAGES, "v": PAGES}, {**pages, **offsets}, {})
    assert request.longest == {"sk": 21}  # of the values: a call like it can need another problem
    with pytest.raises(ValueError, match="page_list needs page_offsets and last_page_lengths; page_offsets is miss"):
        text(DENSE, PAGES, **pages)


def test_a_page_table_needs_lengths():
    with pytest.raises(ValueError, match="page_table needs lengths_k"):
        text(DENSE, PAGES, page_table=TABLE["page_table"])
    with pytest.raises(ValueError, match=r"page_table has shape \[6\]; it must be \[b, blocks\]"):
        text(DENSE, PAGES, page_table=ints(*range(6)), **LENGTHS)
    with pytest.raises(ValueError, match=r"k has shape \[5, 4, 16\]; it must be pages, \[pages, page, hk, d\]"):
        text(DENSE, PACKED, **TABLE)


def test_a_dense_cache():
    cache = array(8, 11, 2, 16)
    assert text(DENSE, cache, cache_index=ints(3, 5)) == "hk=2 sk=11 cache=8"
    assert text(DENSE, cache[:2], **LENGTHS, left_padding=ints(0, 2)) == "hk=2 sk=11 lengths left_padding"
    assert text(PACKED, cache, **STARTS, **LENGTHS) == "hk=2 sk=11 lengths cache=8"
    assert text(PACKED, cache, **STARTS, cache_index=ints(3, 5)) == "hk=2 sk=11 cache=8"
    with pytest.raises(ValueError, match="packed sequences need offsets_q and offsets_k; offsets_k is missing"):
        text(PACKED, PACKED, **STARTS)
    with pytest.raises(ValueError, match=r"q has shape .*\(\[tokens, heads, dim\] as offsets_q is given\)"):
        text(DENSE, cache, **STARTS)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax"])
def test_an_8_bit_cache_says_its_type(library):
    def of(words, dtype):
        if library == "torch":
            torch = pytest.importorskip("torch")
            return torch.zeros(words, dtype=getattr(torch, dtype))
        module = pytest.importorskip("jax").numpy if library == "jax" else numpy
        return module.zeros(words, dtype)

    q, k = of((2, 3, 4, 16), HALF), of((2, 5, 2, 16), "int8")
    assert text(q, k, descale_k=array(1, dtype="float32")) == "hk=2 sk=5 kv=int8 descale=tensor"
    if library != "numpy":
        k = of((2, 5, 2, 16), "float8_e5m2")
        assert text(q, k) == "hk=2 sk=5 kv=fp8_e5m2"
    assert text(q, of((2, 5, 2, 16), "uint8"), kv="fp8") == "hk=2 sk=5 kv=fp8"


def test_the_type_of_wider_keys_is_checked_by_the_call():
    k = array(2, 5, 2, 16, dtype="float32")
    assert "kv=" not in text(DENSE, k)
    with pytest.raises(ValueError, match="'k' is fp32; the problem needs fp16"):
        regard.attention(DENSE, k, k)
    k = array(2, 5, 2, 16, dtype="int8")
    with pytest.raises(ValueError, match="kv=int8 needs factors"):
        regard.attention(DENSE, k, k)
    with pytest.raises(ValueError, match="'v' is fp16; the problem needs int8"):
        regard.check("fwd fp16 b=2 hq=4 hk=2 sq=3 sk=5 d=16 kv=int8 descale=tensor", q=DENSE, k=k, v=array(2, 5, 2, 16))


def test_the_shape_of_factors_says_what_they_are_for():
    def descale(k, *shape, **options):
        words = text(DENSE, k, descale_k=array(*shape, dtype="float32"), **options).split()
        return next(word for word in words if word.startswith("descale="))

    dense, pages = array(2, 5, 4, 16, dtype="int8"), array(9, 7, 4, 16, dtype="int8")
    assert descale(dense, 1) == "descale=tensor"
    assert descale(dense, 2, 4) == descale(dense, 1, 4) == descale(pages, 2, 4, **TABLE) == "descale=head"
    assert descale(dense, 2, 5, 4) == descale(pages, 9, 7, 4, **TABLE) == "descale=token"
    assert descale(pages, 9, 4, **TABLE) == "descale=page"
    with pytest.raises(ValueError, match=r"descale_k has shape \[2, 4\], which can be factors of each head or of each"):
        descale(pages[:2], 2, 4, **TABLE)
    assert descale(pages[:2], 2, 4, **TABLE, descale="page") == "descale=page"
    with pytest.raises(ValueError, match=r"descale_k has shape \[2, 5, 4, 1\]; it must be \[1\]"):
        descale(dense, 2, 5, 4, 1)


def test_new_tokens():
    cache = array(2, 11, 2, 16)
    new = array(2, 3, 2, 16)
    assert text(DENSE, cache, k_new=new, v_new=new, **LENGTHS) == "hk=2 sk=11 lengths snew=3"
    new = {"k_new": array(6, 2, 16), "v_new": array(6, 2, 16)}
    assert text(DENSE, cache, **new, offsets_new=ints(0, 4, 6)) == "hk=2 sk=11 snew=4 tnew=6"
    assert text(DENSE, cache, **new, offsets_new=ints(0, 4, 6), snew=5) == "hk=2 sk=11 snew=5 tnew=6"
    with pytest.raises(ValueError, match="packed new tokens need offsets_new"):
        text(DENSE, cache, **new)
    assert "slots=int32" in text(DENSE, cache, pass_="append", **new, slots=[*range(6)])
    for dtype in ("int32", "int64"):
        slots = ints(*range(6), dtype=dtype)
        assert text_of_append(cache, new["k_new"], slots=slots) == f"b=1 h=2 sk=11 slots={dtype} tnew=6 cache=2"


def test_names_of_other_libraries():
    for name, here in (("block_table", "page_table="), ("slot_mapping", "slots="), ("cache_batch_idx", "cache_index=")):
        with pytest.raises(ValueError, match=f"unknown option '{name}'; did you mean {here}"):
            regard.attention(DENSE, DENSE, DENSE, **{name: ints(0)})


def test_what_is_missing_beside_new_tokens():
    k, new = numpy.zeros((4, 8, 2, 64), HALF), numpy.zeros((2, 1, 2, 64), HALF)
    with pytest.raises(ValueError, match=r"k_new has shape \[2, 1, 2, 64\]; with slots, .* \[tokens, hk, d\]"):
        regard.append(k, k, new, new, slots=ints(0, 1))
    with pytest.raises(ValueError, match="rope needs rope_cos and rope_sin"):
        regard.append(k, k, new, new, rope="half", lengths_k=ints(0, 1))
    with pytest.raises((TypeError, ValueError), match="partial_o"):
        regard.merge([1.0], [2.0])


def test_merge_in_place():
    partial, lse = array(1, 2, 3, 8, dtype="float32"), array(1, 3, 2, dtype="float32")
    o, of_o = numpy.ones_like(partial[0]), numpy.zeros_like(lse[0])
    assert regard.merge(partial, lse, out=o, lse=of_o, accumulate=True)[0] is o
    numpy.testing.assert_allclose(o, 0.5 * (1 + partial[0]))
    numpy.testing.assert_allclose(of_o, numpy.log(2), rtol=1e-6)


def test_rope_tables():
    cache, new = array(2, 11, 2, 16), array(2, 3, 2, 16)
    given = {"k_new": new, "v_new": new, "rope": "half", "rope_cos": array(30, 3), "rope_sin": array(30, 3)}
    words = "hk=2 sk=11 rope=half rotary=6{} snew=3 rope_rows=30"
    assert text(DENSE, cache, **given) == words.format("")
    given = {**given, "rope_cos": array(30, 3, dtype="float32")}
    assert text(DENSE, cache, **given) == words.format(" rope_type=fp32")
    starts = {"positions": ints(4, 9)}
    assert text(DENSE, cache, **given, **starts) == words.format(" rope_type=fp32 positions=sequence")
    del given["k_new"], given["v_new"]
    words = words.replace("hk=2", "b=2 h=2")
    assert text_of_append(cache, new, **given, **starts) == words.format(" rope_type=fp32 positions=sequence")
    each = {"positions": array(2, 3, dtype="int32")}
    assert text_of_append(cache, new, **given, **each) == words.format(" rope_type=fp32 positions=token")


def test_append():
    new, packed = array(2, 3, 2, 16), array(6, 2, 16)
    pages = {"page_table": array(2, 3, dtype="int32"), **LENGTHS}
    assert text_of_append(array(2, 11, 2, 16), new, **LENGTHS) == "b=2 h=2 sk=11 lengths snew=3"
    assert text_of_append(array(5, 11, 2, 16), new, **LENGTHS) == "b=2 h=2 sk=11 lengths snew=3 cache=5"
    assert text_of_append(PAGES, new, **pages) == "b=2 h=2 sk=21 lengths paged=7 snew=3 pages=9"
    starts = {"offsets_new": ints(0, 4, 6)}
    assert text_of_append(PAGES, packed, **pages, **starts) == "b=2 h=2 sk=21 lengths paged=7 snew=4 tnew=6 pages=9"
    slots = {"slots": ints(*range(6)), "paged": 7}
    assert text_of_append(PAGES, packed, **slots) == "b=1 h=2 sk=7 slots=int32 paged=7 tnew=6 pages=9"
    small = PAGES.astype("int8")
    factors = array(9, 7, 2, dtype="float32")
    words = "b=2 h=2 sk=21 kv=int8 lengths descale=token paged=7 snew=3 pages=9"
    assert text_of_append(small, new, **pages, descale_k=factors, descale_v=factors) == words
    with pytest.raises(ValueError, match=r"k_new has shape \[2, 3\]; it must be"):
        text_of_append(PAGES, new[:, :, 0, 0], **pages)
