"""Every argument of FlashInfer's functions changes the result, is known to be harmless, or is refused; a value of the
wrong kind is one sentence."""

import inspect

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import WORKSPACE, Pages  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from argument_audit import Audit, cases, check_wrong_values, undecided  # noqa: E402
from cached import ints, numbers  # noqa: E402
from latent_cases import LatentPages  # noqa: E402

pytestmark = pytest.mark.no_compiler

D, HQ, HK = 16, 4, 2
PAGES = Pages([8, 6], 4, HK, D)
NHD = PAGES.cache("tuple NHD")
Q, ROWS = numbers(7, 2, HQ, D), numbers(8, 5, HQ, D)
K, V = numbers(1, 7, HK, D), numbers(2, 7, HK, D)
SQUARE = numbers(3, 7, 7, D)  # as NHD and as HND
STARTS, OF_KEYS = ints(0, 2, 5), ints(0, 4, 7)
MASK = torch.arange(2 * 8 + 3 * 6) % 3 > 0
TENSOR, FLOAT = torch.zeros(2, dtype=torch.int32), torch.tensor([0.5])


def decode(wrapper=(), plan=(), run=()):
    """A wrapper, its plan and its run, with these arguments."""
    found = flashinfer.BatchDecodeWithPagedKVCacheWrapper(**{"float_workspace_buffer": WORKSPACE, **dict(wrapper)})
    found.plan(**{**OF_PLAN, "q_data_type": torch.float32, **dict(plan)})
    return found.run(**{"q": Q, "paged_kv_cache": NHD, **dict(run)})


def prefill(wrapper=(), plan=(), run=()):
    found = flashinfer.BatchPrefillWithPagedKVCacheWrapper(**{"float_workspace_buffer": WORKSPACE, **dict(wrapper)})
    found.plan(**{**OF_PREFILL, "q_data_type": torch.float32, **dict(plan)})
    return found.run(**{"q": ROWS, "paged_kv_cache": NHD, **dict(run)})


def ragged(wrapper=(), plan=(), run=()):
    found = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(**{"float_workspace_buffer": WORKSPACE, **dict(wrapper)})
    found.plan(**{**OF_RAGGED, "q_data_type": torch.float32, **dict(plan)})
    return found.run(**{"q": ROWS, "k": K, "v": V, **dict(run)})


def mla(wrapper=(), plan=(), run=()):
    found = flashinfer.BatchMLAPagedAttentionWrapper(**{"float_workspace_buffer": WORKSPACE, **dict(wrapper)})
    found.plan(**{**OF_MLA, **dict(plan)})
    return found.run(**{**OF_MLA_RUN, **dict(run)})


def heads(d):
    return {"num_qo_heads": HQ, "num_kv_heads": HK, d: D}


OF_PLAN = {
    **dict(zip(("indptr", "indices", "last_page_len"), PAGES.lists)),
    **heads("head_dim"),
    "page_size": 4,
}
OF_LISTS = dict(zip(("paged_kv_indptr", "paged_kv_indices", "paged_kv_last_page_len"), PAGES.lists))
OF_PREFILL = {"qo_indptr": STARTS, **OF_LISTS, **heads("head_dim_qk"), "page_size": 4}
OF_RAGGED = {"qo_indptr": STARTS, "kv_indptr": OF_KEYS, **heads("head_dim_qk")}
LATENT = LatentPages([8, 6], 4, D + 8, D)
OF_MLA = {
    "qo_indptr": STARTS,
    **dict(zip(("kv_indptr", "kv_indices", "kv_len_arr"), (LATENT.indptr, LATENT.indices, LATENT.lengths))),
    **dict(zip(("num_heads", "head_dim_ckv", "head_dim_kpe", "page_size"), (HQ, D, 8, 4))),
    **{"causal": False, "sm_scale": 0.2, "q_data_type": torch.float32, "kv_data_type": torch.float32},
}
OF_MLA_RUN = {
    **{"q_nope": ROWS, "q_pe": numbers(9, 5, HQ, 8)},
    **{"ckv_cache": LATENT.k[:, :, 0, :D], "kpe_cache": LATENT.k[:, :, 0, D:]},
}
SCORES = {"window_left": 2, "logits_soft_cap": 0.5, "sm_scale": 0.7}
ROPE = {"rope_scale": 2.0, "rope_theta": 1e5}  # which count only with ROPE_LLAMA
SPLITS = {"fixed_split_size": 8, "disable_split_kv": True}
TYPES = {"kv_data_type": torch.float32, "o_data_type": "float32"}
ITEMS = {
    "prefix_len_ptr": TENSOR,
    "token_pos_in_items_ptr": TENSOR,
    "token_pos_in_items_len": 4,
    "max_item_len_ptr": TENSOR,
}
FACTORS = {"q_scale": 2.0, "k_scale": 3.0, "v_scale": 0.5}
MEMORY = {"out": torch.empty_like(ROWS), "lse": torch.empty(5, HQ)}
LENGTHS = {"seq_lens": TENSOR, "seq_lens_q": TENSOR}
BOUNDS = {"max_token_per_sequence": 9, "max_sequence_kv": 99}
DECODE_BUFFERS = {
    "paged_kv_indptr_buffer": ints(0, 0, 0),
    "paged_kv_indices_buffer": ints(*[0] * 9),
    "paged_kv_last_page_len_buffer": ints(0, 0),
}
PREFILL_BUFFERS = {
    "qo_indptr_buf": ints(0, 0, 0),
    "paged_kv_indptr_buf": ints(0, 0, 0),
    "paged_kv_indices_buf": ints(*[0] * 9),
    "paged_kv_last_page_len_buf": ints(0, 0),
    "custom_mask_buf": TENSOR,
    "mask_indptr_buf": TENSOR,
}
BOTH_MASKS = {"custom_mask": MASK, "packed_custom_mask": torch.full((5,), 0b1011010, dtype=torch.uint8)}


def part(function, name):
    """The function with the arguments of one of its steps alone, under the signature of that step."""
    names = {"wrapper": "__init__", "plan": "plan", "run": "run"}

    def call(**arguments):
        return function(**{name: arguments})

    kind = {
        decode: flashinfer.BatchDecodeWithPagedKVCacheWrapper,
        prefill: flashinfer.BatchPrefillWithPagedKVCacheWrapper,
        ragged: flashinfer.BatchPrefillWithRaggedKVCacheWrapper,
        mla: flashinfer.BatchMLAPagedAttentionWrapper,
    }[function]
    parameters = list(inspect.signature(getattr(kind, names[name])).parameters.values())[1:]
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    call.__signature__ = inspect.Signature([one.replace(kind=one.KEYWORD_ONLY) for one in named])
    return call


AUDITS = {
    "decode": Audit(
        part(decode, "wrapper"),
        {"float_workspace_buffer": WORKSPACE},
        {},
        {**DECODE_BUFFERS, "use_tensor_cores": True, "backend": "fa3"},
        {"kv_layout": "NDH", "use_cuda_graph": True, "jit_args": ["name"]},
    ),
    "decode.plan": Audit(
        part(decode, "plan"),
        OF_PLAN,
        {**SCORES, "pos_encoding_mode": "ALIBI"},
        {**ROPE, **SPLITS, **TYPES, "data_type": "float32", "non_blocking": False, "block_tables": TENSOR,
         "seq_lens": TENSOR, "q_data_type": "float32", "q_len_per_req": 1},
        {"window_right": 1},
    ),
    "decode.run": Audit(
        part(decode, "run"),
        {"q": Q, "paged_kv_cache": NHD},
        {**FACTORS, "return_lse": True, "sinks": numbers(9, HQ)},
        {"out": torch.empty_like(Q), "lse": torch.empty(2, HQ), "enable_pdl": True, "window_left": -1,
         "q_len_per_req": 1},
        {"skip_softmax_threshold_scale_factor": 1.0, "kv_cache_sf": TENSOR},
    ),
    "prefill": Audit(
        part(prefill, "wrapper"),
        {"float_workspace_buffer": WORKSPACE},
        {},
        {**PREFILL_BUFFERS, "backend": "fa2"},
        {"kv_layout": 7, "use_cuda_graph": True, "jit_args": ["name"], "jit_kwargs": {"name": 1}},
    ),
    "prefill.plan": Audit(
        part(prefill, "plan"),
        OF_PREFILL,
        {**SCORES, **BOTH_MASKS, "causal": True},
        {**ROPE, **SPLITS, **TYPES, **LENGTHS, **BOUNDS, "head_dim_vo": D, "use_fp16_qk_reduction": True,
         "non_blocking": False, "block_tables": TENSOR, "q_data_type": "float32"},
        {**ITEMS, "pos_encoding_mode": "ALIBI"},
    ),
    "prefill.run": Audit(
        part(prefill, "run"),
        {"q": ROWS, "paged_kv_cache": NHD},
        {**FACTORS, "return_lse": True, "sinks": numbers(9, HQ)},
        {**MEMORY, "enable_pdl": False, "window_left": -1},
        {"skip_softmax_threshold_scale_factor": 1.0, "kv_cache_sf": TENSOR, "use_fp16_softmax": True,
         "uses_spcompress": True},
    ),
    "ragged": Audit(
        part(ragged, "wrapper"),
        {"float_workspace_buffer": WORKSPACE},
        {},
        {"qo_indptr_buf": TENSOR, "kv_indptr_buf": TENSOR, "custom_mask_buf": TENSOR, "mask_indptr_buf": TENSOR,
         "backend": "auto"},
        {"kv_layout": "HND", "use_cuda_graph": True, "jit_args": ["name"], "jit_kwargs": {"name": 1}},
    ),
    "ragged.plan": Audit(
        part(ragged, "plan"),
        OF_RAGGED,
        {**SCORES, "causal": True, "custom_mask": torch.arange(17) % 3 > 0,
         "packed_custom_mask": torch.full((3,), 0b1011010, dtype=torch.uint8)},
        {**ROPE, **SPLITS, **TYPES, **LENGTHS, **BOUNDS, "head_dim_vo": D, "use_fp16_qk_reduction": True,
         "non_blocking": False, "q_data_type": "float32"},
        {**ITEMS, "v_indptr": TENSOR, "o_indptr": TENSOR, "pos_encoding_mode": "ROPE_LLAMA"},
    ),
    "ragged.run": Audit(
        part(ragged, "run"),
        {"q": ROWS, "k": K, "v": V},
        {**FACTORS, "return_lse": True},
        {**MEMORY, "enable_pdl": True},
        {"o_scale": 1.0, "kv_cache_sf": TENSOR},
    ),
    "mla": Audit(
        part(mla, "wrapper"),
        {"float_workspace_buffer": WORKSPACE},
        {},
        {"qo_indptr": TENSOR, "kv_indptr": TENSOR, "kv_indices": TENSOR, "kv_len_arr": TENSOR, "backend": "fa3"},
        {"use_cuda_graph": True},
    ),
    "mla.plan": Audit(part(mla, "plan"), OF_MLA, {"causal": True, "sm_scale": 0.7}, {}, {"use_profiler": True}),
    "mla.run": Audit(
        part(mla, "run"),
        OF_MLA_RUN,
        {"return_lse": True},
        {**MEMORY, "return_lse_base_on_e": True},  # without LSE
        {"profiler_buffer": TENSOR, "kv_len": TENSOR, "page_table": TENSOR, "o_scale": 1.0, "ckv_scale": 1.0,
         "ckv_scale_arr": FLOAT, "kpe_scale": 1.0},
    ),
    "single_decode_with_kv_cache": Audit(
        flashinfer.single_decode_with_kv_cache,
        {"q": numbers(4, 7, D), "k": SQUARE, "v": SQUARE},
        {**SCORES, **FACTORS, "kv_layout": "HND", "pos_encoding_mode": "ALIBI", "return_lse": True},
        {**ROPE, "use_tensor_cores": True},
    ),
    "single_prefill_with_kv_cache": Audit(
        flashinfer.single_prefill_with_kv_cache,
        {"q": numbers(4, 3, 7, D), "k": SQUARE, "v": SQUARE},
        {**SCORES, "k_scale": 3.0, "v_scale": 0.5, "kv_layout": "HND", "causal": True, "return_lse": True,
         "custom_mask": torch.arange(21).view(3, 7) % 3 > 0,
         "packed_custom_mask": torch.full((3,), 0b1011010, dtype=torch.uint8)},
        {**ROPE, "use_fp16_qk_reduction": True, "backend": "fa2", "o_dtype": torch.float32},
        {"scale_q": FLOAT, "scale_k": FLOAT, "scale_v": FLOAT, "kv_cache_sf": (FLOAT, FLOAT),
         "pos_encoding_mode": "ROPE_LLAMA"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "argument"), cases(AUDITS))
def test_arguments(name, argument):
    AUDITS[name].check(argument)


@pytest.mark.parametrize("name", AUDITS)
def test_none_is_left_out(name):
    assert not undecided(AUDITS[name])


V_AND_S = numbers(1, 3, HQ, D), numbers(2, 3, HQ)
FUNCTIONS = {
    "append_paged_kv_cache": {
        "append_key": K,
        "append_value": V,
        "batch_indices": ints(0, 0, 1, 1, 1, -1, -1),
        "positions": ints(0, 7, 3, 4, 5, 0, 0),
        "paged_kv_cache": tuple(x.clone() for x in NHD),
        "kv_indices": PAGES.indices,
        "kv_indptr": PAGES.indptr,
        "kv_last_page_len": PAGES.last_page_len,
        "kv_layout": "NHD",
    },
    "append_paged_mla_kv_cache": {
        "append_ckv": K[:, 0],
        "append_kpe": K[:, 0, :8],
        "batch_indices": ints(0, 0, 1, 1, 1, -1, -1),
        "positions": ints(0, 7, 3, 4, 5, 0, 0),
        **{name: OF_MLA_RUN[name].clone() for name in ("ckv_cache", "kpe_cache")},
        "kv_indices": LATENT.indices,
        "kv_indptr": LATENT.indptr,
        "kv_last_page_len": LATENT.last_page_len,
    },
    "get_batch_indices_positions": {
        "append_indptr": STARTS,
        "seq_lens": ints(8, 6),
        "nnz": 7,
        "batch_indices": torch.zeros(7, dtype=torch.int32),
        "positions": torch.zeros(7, dtype=torch.int32),
    },
    "get_seq_lens": {"kv_indptr": PAGES.indptr, "kv_last_page_len": PAGES.last_page_len, "page_size": 4},
    "merge_state": dict(zip(("v_a", "s_a", "v_b", "s_b"), 2 * V_AND_S)),
    "merge_state_in_place": {
        **dict(zip(("v", "s", "v_other", "s_other"), (*(x.clone() for x in V_AND_S), *V_AND_S))),
        "mask": torch.tensor([True, False, True]),
    },
    "merge_states": {"v": numbers(1, 3, 2, HQ, D), "s": numbers(2, 3, 2, HQ)},
}


def graph_of(buffers):
    """A wrapper for graphs, of decode or of prefill, with these buffers."""
    kind = "Decode" if set(buffers) <= set(DECODE_BUFFERS) else "Prefill"
    getattr(flashinfer, f"Batch{kind}WithPagedKVCacheWrapper")(WORKSPACE, use_cuda_graph=True, **buffers)


CALLS = {
    **{name: (audit.results, {**audit.inputs, **audit.changes, **audit.harmless}) for name, audit in AUDITS.items()},
    **{name: (getattr(flashinfer, name), given) for name, given in FUNCTIONS.items()},
    "decode in graphs": (lambda **named: graph_of({**DECODE_BUFFERS, **named}), DECODE_BUFFERS),
    "prefill in graphs": (lambda **named: graph_of({**PREFILL_BUFFERS, **named}), PREFILL_BUFFERS),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_of_the_wrong_kind(name):
    call, good = CALLS[name]
    given = FUNCTIONS.get(name, {})
    if given:
        call(**given)
    for argument in good:
        check_wrong_values(lambda **one: call(**{**given, **one}), argument)
