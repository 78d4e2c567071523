"""What does not fit together is one sentence."""

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import WORKSPACE, Pages  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import ints, numbers  # noqa: E402

pytestmark = pytest.mark.no_compiler

D = 16
PAGES = Pages([9, 6], 4, 2, D)
CACHE, Q = PAGES.cache("tuple NHD"), numbers(7, 2, 4, D)
HALF = Q.half()
TOKENS = numbers(1, 2, 2, D)
WHERE = PAGES.indices, PAGES.indptr, PAGES.last_page_len


def decode(*lists, **options):
    found = flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE)
    found.plan(*(lists or PAGES.lists), 4, 2, D, 4, **{"q_data_type": torch.float32, **options})
    return found


def prefill(*starts, **options):
    found = flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE)
    found.plan(ints(*starts), *PAGES.lists, 4, 2, D, 4, **{"q_data_type": torch.float32, **options})
    return found


def of_graphs(pages=4, sequences=2):
    buffers = (
        torch.zeros(3, dtype=torch.int32),
        torch.zeros(pages, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int32),
    )
    if sequences != 2:
        buffers = (*buffers[:2], torch.zeros(sequences, dtype=torch.int32))
    return flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(WORKSPACE, *buffers)


def append(batch, positions, tokens=TOKENS, values=TOKENS):
    cache = tuple(x.clone() for x in CACHE)
    flashinfer.append_paged_kv_cache(tokens, values, batch, positions, cache, *WHERE)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE).run(Q, CACHE), "has no plan yet: call plan"),
        (lambda: flashinfer.BatchPrefillWithPagedKVCacheWrapper(WORKSPACE).run(Q, CACHE), "has no plan yet: call plan"),
        (lambda: flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE, backend="trtllm-gen"), "backend is 'trtllm"),
        (lambda: decode(q_data_type="float16").run(Q, CACHE), "q is torch.float32, .*q_data_type=torch.float16"),
        (lambda: decode(q_data_type=torch.int8), "q_data_type is torch.int8; it must be float16, bfloat16"),
        (lambda: decode(q_data_type=None), "q_data_type is of type NoneType"),
        (lambda: decode(kv_data_type="uint8"), "kv_data_type is torch.uint8; it must be"),
        (
            lambda: decode().run(numbers(1, 2, 6, D), CACHE),
            r"q has shape \[2, 6, 16\].* the plan is for \[tokens, 4, 16\]",
        ),
        (lambda: decode().run(numbers(1, 4, 4, D), CACHE), "q has 4 tokens, and the plan is for 2 sequences"),
        (lambda: decode().run(Q, CACHE, q_len_per_req=2), "the plan is for 2 sequences of q_len_per_req=1"),
        (lambda: decode().run(Q, (CACHE[0], CACHE[0][:, :3])), r"v \[7, 3, 2, 16\], and the plan is for"),
        (lambda: decode().run(Q, torch.stack(CACHE)), r"paged_kv_cache has shape \[2, 7, 4, 2, 16\]; it must be"),
        (lambda: decode().run(Q, list(CACHE)), "paged_kv_cache is of type list; it must be"),
        (lambda: decode().run(Q, CACHE, 1.0), "args is given, and arguments after the cache are those of custom"),
        (lambda: decode().run(Q, CACHE, kv_cache_sf=CACHE), "kv_cache_sf is given, and it is for nvfp4 caches"),
        (lambda: decode().run(Q, CACHE, window_left=3), "window_left is 3, and the plan has -1: plan again"),
        (lambda: decode().run(Q, CACHE, out=HALF), "out is torch.float16 .* it must be torch.float32 of shape"),
        (lambda: decode().run(Q, CACHE, out=numbers(1, 2, 4, 8)), r"it must be torch.float32 of shape \[2, 4, 16\]"),
        (lambda: decode().run(Q, CACHE, lse=numbers(1, 4, 2), return_lse=True), r"lse is .*of shape \[2, 4\] on cpu"),
        (
            lambda: decode().run(Q, CACHE, k_scale=torch.ones(1)),
            "k_scale is a tensor, which goes only with 8-bit tensors",
        ),
        (
            lambda: decode().run(Q, CACHE, v_scale=torch.ones(2)),
            r"v_scale is .*\[2\]; it must be a number, or a tensor of one",
        ),
        (lambda: decode().run(Q, CACHE, sinks=numbers(1, 3)), "sink"),
        (lambda: decode(logits_soft_cap=float("nan")).run(Q, CACHE), "softcap"),
        (lambda: decode(pos_encoding_mode="ROPE_LLAMA"), "rotates cached keys whenever they are read"),
        (lambda: decode(pos_encoding_mode="ROPE"), "pos_encoding_mode is 'ROPE'; it must be 'NONE' or 'ALIBI'"),
        (lambda: decode(pos_encoding_mode="ALIBI", logits_soft_cap=1.0), "does not go with a soft cap"),
        (lambda: decode(*PAGES.lists, window_right=2), "window_right is given, and queries of decode do not see later"),
        (
            lambda: flashinfer.BatchDecodeWithPagedKVCacheWrapper(WORKSPACE).plan(*PAGES.lists, 4, 2, D, 4, "NONE", -1),
            "deprecated_positional_args is given, and arguments after page_size are taken only by name",
        ),
        (lambda: decode(ints(0, 3), *PAGES.lists[1:]), r"indptr has 2 numbers and last_page_len 2; they must be \[b"),
        (lambda: decode(ints(0, 3, 9), *PAGES.lists[1:]), "indptr ends at 9, past the 5 of indices"),
        (lambda: decode(ints(0, 4, 2), *PAGES.lists[1:]), "indptr is not cumulative"),
        (lambda: decode(ints(1, 3, 5), *PAGES.lists[1:]), "indptr is not cumulative"),
        (lambda: decode(PAGES.indptr.long(), *PAGES.lists[1:]), "indptr is torch.int64 .* list of torch.int32"),
        (lambda: decode(PAGES.indptr, ints(0, 1, 2, 3, 99), ints(1, 2)).run(Q, CACHE), "page_list"),
        (lambda: decode(*PAGES.lists[:2], ints(7, 2)).run(Q, CACHE), "last_page_lengths"),
        (lambda: of_graphs(sequences=3), r"indptr_buffer has 3 numbers and .*last_page_len_buffer 3; they must be"),
        (
            lambda: of_graphs().plan(*PAGES.lists, 4, 2, D, 4),
            "indices has 5 pages, and the wrapper's buffer room for 4",
        ),
        (
            lambda: of_graphs(9).plan(ints(0, 1), ints(1), ints(1), 4, 2, D, 4),
            "last_page_len has 1 numbers, and the wrapper 2 sequences",
        ),
        (lambda: prefill(0, 1), r"qo_indptr has 2 numbers and paged_kv_indptr 3; both must be \[b\+1\]"),
        (lambda: prefill(0, 3, 2), "qo_indptr is not cumulative"),
        (lambda: prefill(0, 1, 5).run(Q, CACHE), "q has 2 tokens, and qo_indptr ended at 5: plan again"),
        (lambda: prefill(0, 1, 2, custom_mask=torch.ones(14, dtype=torch.bool)), "custom_mask is .*, 15 in all"),
        (lambda: prefill(0, 1, 2, custom_mask=torch.ones(15)), "custom_mask is torch.float32 .* must be torch.bool"),
        (lambda: prefill(0, 1, 2, prefix_len_ptr=ints(1, 1)), "prefix_len_ptr is given, and it scores several items"),
        (lambda: prefill(0, 1, 2, pos_encoding_mode="ALIBI"), "pos_encoding_mode is 'ALIBI', .*: give causal=True"),
        (
            lambda: append(ints(0, 1), ints(8, 20)),
            "token 1 belongs to none of the pages of sequence 1, of 2 sequences: kv_indptr",
        ),
        (lambda: append(ints(2, 0), ints(1, 1)), "token 0 belongs to none of the pages of sequence 2, of 2"),
        (lambda: append(ints(-1, 0), ints(-1, -1)), "token 1 belongs to none of the pages of sequence 0"),
        (lambda: append(ints(0, 1), ints(9)), "batch_indices has 2 numbers and positions 1"),
        (
            lambda: append(ints(0, 1, 1), ints(9, 1, 2)),
            r"append_key has shape \[2, 2, 16\], .* batch_indices 3 numbers",
        ),
        (lambda: flashinfer.get_seq_lens(ints(0, 1), ints(1, 2), 4), "kv_indptr has 2 numbers and kv_last_page_len 2"),
        (lambda: flashinfer.merge_state(Q, Q, Q, Q), "the shapes are v_a"),
        (
            lambda: flashinfer.merge_state(Q, Q[..., 0], HALF, Q[..., 0]),
            "v_a is torch.float32 and v_b torch.float16",
        ),
        (
            lambda: flashinfer.merge_state_in_place(Q, HALF[..., 0], Q, Q[..., 0]),
            "s is torch.float16; .* torch.float32",
        ),
        (lambda: flashinfer.merge_states(Q, Q[..., 0]), r"v has shape \[2, 4, 16\] and s"),
    ],
)
def test_what_is_wrong_is_said(call, sentence):
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=sentence) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_frozen_number_of_queries():
    run = of_graphs(9)
    run.plan(*PAGES.lists, 4, 2, D, 4, q_len_per_req=2)
    with pytest.raises(ValueError, match="q_len_per_req is 1, and this wrapper was planned with 2"):
        run.plan(*PAGES.lists, 4, 2, D, 4)


def test_a_workspace_of_the_same_device():
    run = decode()
    run.reset_workspace_buffer(WORKSPACE, WORKSPACE)
    run.end_forward()
    with pytest.raises(ValueError, match="int_workspace_buffer is on meta; it must be on cpu"):
        run.reset_workspace_buffer(WORKSPACE, WORKSPACE.to("meta"))


def test_tensors_with_gradients_are_not_recorded():
    q = Q.clone().requires_grad_()
    assert torch.equal(decode().run(q, CACHE), decode().run(Q, CACHE)) and not decode().run(q, CACHE).requires_grad
