"""regard.flash_mla against one row of the cache after the other; FlashMLA's own dense tests in spirit."""

import importlib.metadata
import math
import sys

import places
import pytest

torch = pytest.importorskip("torch")
import regard.flash_mla  # noqa: E402
from argument_audit import Audit, cases, check_wrong_values, undecided  # noqa: E402
from cached import ints, numbers  # noqa: E402
from latent_cases import LatentPages, close  # noqa: E402
from regard.flash_mla import FlashMLASchedMeta, flash_mla_interface, flash_mla_with_kvcache, get_mla_metadata  # noqa: E402

pytestmark = pytest.mark.no_compiler

FAR = 2147480000  # what FlashMLA's tests write where a sequence has no pages


def decode(pages, q, **options):
    return flash_mla_with_kvcache(q, pages.k, pages.table, pages.lengths, pages.dv, *get_mla_metadata(), **options)


def expected(pages, q, **masks):
    """out [b, sq, hq, dv] and LSE [b, hq, sq], +inf where no key is seen."""
    b, sq = q.shape[:2]
    o, lse = pages.expected(q.flatten(0, 1), [sq] * b, **masks)
    lse = lse.unflatten(0, (b, sq)).transpose(1, 2)
    return o.unflatten(0, (b, sq)), lse.masked_fill(lse == -math.inf, math.inf)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 2, 4])
@pytest.mark.parametrize(("page", "heads", "hk"), [(64, 9, 1), (64, 6, 3), (1, 16, 1), (7, 3, 1)])
def test_against_one_row_after_the_other(page, heads, hk, queries, causal):
    pages = LatentPages([20, 0, 1, 63, 64, 65, 3], page, hk=hk, beyond=FAR)
    q = numbers(7, 7, queries, heads, 24)
    out, lse = decode(pages, q, causal=causal)
    right, of_right = expected(pages, q, causal=causal)
    close(out, right)
    close(lse, of_right)
    assert (out[1] == 0).all() and (lse[1] == math.inf).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
@pytest.mark.parametrize(("heads", "queries"), [(1, 2), (64, 1), (128, 1)])
def test_the_sizes_of_models(dtype, tolerance, heads, queries):
    pages, q = LatentPages([140, 20], 64, 576, 512, beyond=FAR), numbers(7, 2, queries, heads, 576).to(dtype)
    pages.k = pages.k.to(dtype)
    for found, right in zip(
        decode(pages, q, causal=True, softmax_scale=0.05), expected(pages, q, causal=True, scale=0.05)
    ):
        close(found, right, tolerance)


def test_no_columns_beside_those_of_v():
    pages, q = LatentPages([9, 0, 30], 4, 16, 16), numbers(7, 3, 2, 4, 16)
    for found, right in zip(decode(pages, q), expected(pages, q)):
        close(found, right)


@pytest.mark.parametrize("byte", [torch.float8_e4m3fn, torch.uint8])
@pytest.mark.parametrize(("page", "heads", "queries", "d", "dv"), [(64, 128, 2, 576, 512), (1, 5, 1, 160, 128)])
def test_rows_of_fp8_numbers_and_their_factors(page, heads, queries, d, dv, byte):
    """656 bytes for 576 columns; unused ones are NaN as numbers of each type."""
    pages, q = LatentPages([70, 0, 1, 20], page, d, dv, beyond=FAR), numbers(7, 4, queries, heads, d).bfloat16()
    latent, rope = pages.k[..., :dv].unflatten(-1, (-1, 128)), pages.k[..., dv:].bfloat16()
    factors = latent.abs().amax(-1, keepdim=True) / 448
    stored = (latent / factors).to(torch.float8_e4m3fn)
    parts = stored.flatten(-2), factors.flatten(-2), rope
    rows = torch.cat([part.contiguous().view(torch.uint8) for part in parts], -1)
    pages.k = torch.cat([(stored.float() * factors).flatten(-2), rope.float()], -1)
    right = expected(pages, q, causal=True, scale=0.05)
    options = {"causal": True, "softmax_scale": 0.05, "is_fp8_kvcache": True}
    found = flash_mla_with_kvcache(q, rows.view(byte), pages.table, pages.lengths, dv, *get_mla_metadata(), **options)
    for one, of_right in zip(found, right):
        close(one, of_right, 2e-2)


def test_a_schedule_is_never_stale():
    """FlashMLA's is wrong after a length changes; here one object serves all calls."""
    metadata, nothing = get_mla_metadata(ints(5, 9), 128, 1, num_heads_q=128)
    assert nothing is None
    for lengths in ([9, 30], [70, 2]):
        pages, q = LatentPages(lengths, 4), numbers(7, 2, 1, 3, 24)
        out, _ = flash_mla_with_kvcache(q, pages.k, pages.table, pages.lengths, 16, metadata)
        close(out, expected(pages, q)[0])


PAGES, Q = LatentPages([9, 6], 4), numbers(7, 2, 3, 5, 24)
GIVEN = {
    "q": Q,
    "k_cache": PAGES.k,
    "block_table": PAGES.table,
    "cache_seqlens": PAGES.lengths,
    "head_dim_v": 16,
    "tile_scheduler_metadata": FlashMLASchedMeta(),
}
AUDIT = Audit(
    flash_mla_with_kvcache,
    GIVEN,
    {"softmax_scale": 0.7, "causal": True},
    {},
    {"num_splits": ints(0, 1), "is_fp8_kvcache": True, "indices": ints([[0]]), "attn_sink": numbers(1, 5),
     "extra_k_cache": PAGES.k, "extra_indices_in_kvcache": ints([[0]]), "topk_length": ints(1, 1),
     "extra_topk_length": ints(1, 1)},
)  # fmt: skip


@pytest.mark.parametrize(("name", "argument"), cases({"flash_mla_with_kvcache": AUDIT}))
def test_arguments(name, argument):
    AUDIT.check(argument)


def test_none_is_left_out():
    assert not undecided(AUDIT)


@pytest.mark.parametrize("argument", [*AUDIT.inputs, *AUDIT.changes, *AUDIT.refused])
def test_values_of_the_wrong_kind(argument):
    check_wrong_values(AUDIT.results, argument)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"block_table": None}, "block_table and cache_seqlens are not both given"),
        ({"k_cache": PAGES.k.half()}, "k_cache is torch.float16 and q torch.float32; they must have the same type"),
        ({"q": Q[0]}, r"q has shape \[3, 5, 24\] and k_cache .* they must be \[b, sq, hq, d\]"),
        ({"head_dim_v": 25}, "dv=25 is above d=24"),
        ({"tile_scheduler_metadata": ints(0)}, "it must be the first result of get_mla_metadata"),
        ({"is_fp8_kvcache": True}, "head_dim_v is 16 and q has 24 columns; with is_fp8_kvcache, head_dim_v must be a"),
        (
            {"is_fp8_kvcache": True, "q": numbers(7, 2, 1, 5, 136), "head_dim_v": 128},
            r"k_cache is torch.float32 with rows of 24; with is_fp8_kvcache it must be of bytes .* with 164 in a row",
        ),
        ({"indices": ints([[0]])}, "indices is given, and it is for sparse attention"),
    ],
)
def test_what_is_wrong_is_said(given, sentence):
    with pytest.raises((ValueError, NotImplementedError), match=sentence) as error:
        flash_mla_with_kvcache(**{**GIVEN, **given})
    assert "\n" not in str(error.value)


def test_sparse_attention_is_refused():
    with pytest.raises(
        NotImplementedError, match="^flash_mla_sparse_fwd is not supported: it reads only the keys of its indices"
    ):
        flash_mla_interface.flash_mla_sparse_fwd(Q, Q, ints(0), 1.0)


def test_the_code_of_the_page_runs_and_registers():
    page = (places.ROOT / "docs/mla.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    assert len(blocks) == 3
    try:
        exec("\n".join(blocks), {"__name__": "page"})
        import flash_mla
        import flash_mla.flash_mla_interface

        assert flash_mla.__version__ == importlib.metadata.version("flash_mla") == "1.0.0"
        assert flash_mla.flash_mla_with_kvcache is flash_mla_with_kvcache
    finally:
        regard.flash_mla.unregister()
    assert not [name for name in sys.modules if name.split(".")[0] == "flash_mla"]
