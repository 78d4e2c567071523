"""aiter.mla against one row of the cache after the other; its own tests in spirit."""

import functools
import math

import pytest

torch = pytest.importorskip("torch")
from argument_audit import Audit, cases, check_wrong_values, undecided  # noqa: E402
from cached import ints, numbers  # noqa: E402
from latent_cases import LatentPages, close, starts  # noqa: E402
from regard.aiter import mla  # noqa: E402

pytestmark = pytest.mark.no_compiler

D, DV = 24, 16
LENGTHS, COUNTS = [5, 0, 16, 21, 1, 17, 15], [1, 2, 4, 0, 3, 1, 2]


def decode(pages, q, counts, dv=DV, o=None, **options):
    """indices are longer than they need be, as in AITER's tests."""
    o = torch.full((*q.shape[:2], dv), -1, dtype=q.dtype) if o is None else o
    lists = starts(counts), pages.indptr, torch.cat([pages.indices, ints(*[0] * 100)]), pages.last_page_len
    most = max([1, *counts])
    found, lse = mla.mla_decode_fwd(
        q, pages.k, o, *lists, most, pages.page, pages.k.shape[2], return_lse=True, **options
    )
    assert found is o
    return o, lse


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("page", "heads"), [(1, 16), (5, 1), (16, 3)])
def test_against_one_row_after_the_other(page, heads, causal):
    pages, q = LatentPages(LENGTHS, page), numbers(7, sum(COUNTS), heads, D)
    o, lse = decode(pages, q, COUNTS, causal=causal, sm_scale=0.3)
    right, of_right = pages.expected(q, COUNTS, causal=causal, scale=0.3)
    close(o, right)
    close(lse, of_right)
    assert (o[1:3] == 0).all() and (lse[1:3] == -math.inf).all()  # of the sequence without keys


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
@pytest.mark.parametrize(("heads", "queries"), [(16, 1), (16, 4), (128, 2)])
def test_the_sizes_of_models(dtype, heads, queries):
    """AITER's tests ask for a cosine difference below 1e-5 with bf16, and 3e-2 with fp8."""
    lengths, small = [21, 64, 65], dtype.itemsize == 1
    counts = [queries] * len(lengths)
    pages, q = LatentPages(lengths, 1, 576, 512), numbers(7, sum(counts), heads, 576).to(dtype)
    pages.k = pages.k.to(dtype)
    factors = {"q_scale": torch.tensor([0.5]), "kv_scale": torch.tensor(2.0)} if small else {}
    o = torch.empty(sum(counts), heads, 512, dtype=torch.bfloat16)
    decode(pages, q, counts, 512, o, **factors)
    pages.k = pages.k.float() * (2.0 if small else 1.0)
    x, y = o.double(), pages.expected(q.float() * (0.5 if small else 1.0), counts, causal=True)[0]
    assert 1 - 2 * (x * y).sum() / (x * x + y * y).sum() < (3e-2 if small else 1e-5)


def test_prefill():
    lengths = [7, 40, 1]
    pages, q = LatentPages(lengths, 4), numbers(7, sum(lengths), 3, D)
    o, lists = torch.empty(*q.shape[:2], DV), (starts(lengths), pages.indptr, pages.indices, pages.last_page_len)
    found, lse = mla.mla_prefill_fwd(q, pages.k, o, *lists, 40, 0.3)
    right, of_right = pages.expected(q, lengths, causal=True, scale=0.3)
    assert found is o and lse.shape == (sum(lengths), 1, 3, 1)
    close(o, right)
    close(lse[:, 0, :, 0], of_right)


@pytest.mark.parametrize("ranks", [2, 3])
def test_context_parallelism(ranks):
    """Each rank has every ranks-th token; merged they are the attention to all of them."""
    import regard.torch

    lengths, counts = [9, 6, 4], [3, 1, 2]
    pages, q = LatentPages(lengths, 1), numbers(7, sum(counts), 4, D)
    parts = []
    for rank in range(ranks):
        rows = [pages.indices[begin:end][rank::ranks] for begin, end in zip(pages.indptr[:-1], pages.indptr[1:])]
        o = torch.empty(*q.shape[:2], DV)
        lists = starts(counts), starts(list(map(len, rows))), torch.cat(rows), ints(1, 1, 1)
        shared = {"g_kv_indptr": pages.indptr, "cp_world_size": ranks, "cp_rank": rank, "return_lse": True}
        parts.append(mla.mla_decode_fwd(q, pages.k, o, *lists, 3, **shared))
    o, lse = regard.torch.merge(*[torch.stack(some)[:, None] for some in zip(*[(o, lse.T) for o, lse in parts])])
    right, of_right = pages.expected(q, counts, causal=True)
    close(o[0], right)
    close(lse[0].T, of_right)


PAGES, Q = LatentPages([9, 6], 4), numbers(7, 4, 3, D)
GIVEN = {
    "q": Q,
    "kv_buffer": PAGES.k,
    "o": torch.empty(4, 3, DV),
    "qo_indptr": starts([1, 3]),
    "kv_indptr": PAGES.indptr,
    "kv_indices": PAGES.indices,
    "kv_last_page_lens": PAGES.last_page_len,
    "max_seqlen_q": 3,
}
SCORES = {"sm_scale": 0.7, "logit_cap": 0.5}
SCHEDULE = dict.fromkeys(
    ("num_kv_splits_indptr", "work_meta_data", "work_indptr", "work_info_set", "reduce_indptr", "reduce_final_map")
    + ("reduce_partial_map",),
    ints(0, 1),
)


def into_new_memory(function):
    """The function with memory of its own for o in each call, as an audit compares the results of two calls."""

    @functools.wraps(function)
    def call(o, **arguments):
        return function(o=o.clone() if isinstance(o, torch.Tensor) else o, **arguments)

    return call


AUDITS = {
    "mla_decode_fwd": Audit(
        into_new_memory(mla.mla_decode_fwd),
        {**GIVEN, "page_size": 4},
        {**SCORES, "causal": False, "return_lse": True},
        {**SCHEDULE, "num_kv_splits": 2, "nhead_kv": 1, "intra_batch_mode": True, "g_kv_indptr": ints(0, 9, 15),
         "cp_rank": 1},  # of one rank
        {"q_scale": torch.ones(1), "kv_scale": torch.ones(1), "return_logits": True, "cp_world_size": 2},
    ),
    "mla_prefill_fwd": Audit(into_new_memory(mla.mla_prefill_fwd), GIVEN, SCORES, {"num_kv_splits": 2}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "argument"), cases(AUDITS))
def test_arguments(name, argument):
    if argument == "cp_world_size":
        with pytest.raises(NotImplementedError, match="cp_world_size is 2, which needs pages of one token"):
            AUDITS[name].results(cp_world_size=2)
        return
    AUDITS[name].check(argument)


@pytest.mark.parametrize("name", AUDITS)
def test_none_is_left_out(name):
    assert not undecided(AUDITS[name])


@pytest.mark.parametrize("name", AUDITS)
def test_values_of_the_wrong_kind(name):
    audit = AUDITS[name]
    for argument in {**audit.inputs, **audit.changes, **audit.harmless, **audit.refused}:
        check_wrong_values(audit.results, argument)


ONE_PAGE = {**GIVEN, "kv_buffer": PAGES.k.flatten(0, 1)[:, None], "page_size": 1, "kv_indices": ints(*range(20))}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: mla.mla_decode_fwd(**GIVEN),
            r"page_size is 1 and nhead_kv 1, and kv_buffer has shape \[7, 4, 1, 24\]",
        ),
        (lambda: mla.mla_decode_fwd(**GIVEN, page_size=4, nhead_kv=2), "page_size is 4 and nhead_kv 2, and kv_buffer"),
        (
            lambda: mla.mla_prefill_fwd(**{**GIVEN, "kv_buffer": PAGES.k.byte()}),
            "kv_buffer is torch.uint8, which means rows that contain",
        ),
        (
            lambda: mla.mla_prefill_fwd(**{**GIVEN, "o": Q[0]}),
            r"o \[3, 24\] .* they must be \[tokens, hq, d\], \[pages",
        ),
        (lambda: mla.mla_prefill_fwd(**{**GIVEN, "o": numbers(1, 4, 3, 30)}), "dv=30 is above d=24"),
        (lambda: mla.mla_decode_fwd(**ONE_PAGE, cp_world_size=2), "g_kv_indptr, the cumulative lengths of whole"),
        (lambda: mla.mla_prefill_ps_fwd(Q), "^mla_prefill_ps_fwd is not provided: regard.aiter.flash_attn_varlen_func"),
        (lambda: mla.mla_decode_fwd_ds32(Q), "^mla_decode_fwd_ds32 is not provided: it takes fp8 and bf16 parts"),
        (lambda: mla.mla_v40_decode_fwd(Q), "^mla_v40_decode_fwd is not provided"),
        (lambda: mla.mla_decode_fwd_v4_nm(Q), "^mla_decode_fwd_v4_nm is not provided"),
    ],
)
def test_what_is_wrong_is_said(call, sentence):
    with pytest.raises((ValueError, NotImplementedError), match=sentence) as error:
        call()
    assert "\n" not in str(error.value)
