#include "problem/other_names.h"

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "base/process_lifetime.h"
#include "base/text.h"
#include "problem/words.h"

namespace regard {
namespace {

/// Reported with the numbers of the suggested window.
constexpr std::string_view in_python_window = "in Python window=";

constexpr OtherNames table[] = {
    {"forward fw", "fwd"},
    {"backward bw grad", "bwd"},
    {"torch.float32 single", "fp32"},
    {"torch.bfloat16", "bf16"},
    {"torch.float16 torch.half", "fp16"},
    {"float8 float8_e4m3 float8_e4m3fn e4m3fn fp8e4m3 torch.float8_e4m3fn", "fp8"},
    {"float8_e5m2 fp8e5m2 torch.float8_e5m2", "fp8_e5m2"},
    {"float8_e4m3fnuz fp8e4m3fnuz fp8_e4m3fnuz torch.float8_e4m3fnuz", "fp8_fnuz"},
    {"float8_e5m2fnuz fp8e5m2fnuz fp8_e5m2fnuz torch.float8_e5m2fnuz", "fp8_e5m2_fnuz"},

    {"batch batch_size bsz bs n_batch num_batches", "b=2"},
    {"heads num_heads n_heads nheads nhead n_head num_attention_heads", "h=16"},
    {"q_heads query_heads num_q_heads num_qo_heads num_query_heads nheads_q h_q head_num_q", "hq=16"},
    {"kv_heads k_heads num_kv_heads n_kv_heads num_key_value_heads num_heads_kv nheads_k nheads_kv h_k "
     "h_kv hkv num_gqa_groups n_kv gqa enable_gqa",
     "hk=4"},
    {"mqa multi_query multi_query_attention", "hk=1"},
    {"seqlen seq_len seq length seq_length sequence_length max_seqlen max_seq_len n_ctx ctx_len "
     "context_length",
     "s=1024"},
    {"seqlen_q seq_len_q seqlens_q q_seqlen q_len qlen max_seqlen_q num_queries tgt_len target_len s_q",
     "sq=1024"},
    {"seqlen_k seqlen_kv seq_len_k seq_len_kv k_len kv_len kvlen kv_seqlen max_seqlen_k max_seqlen_kv "
     "src_len source_len context_len skv s_k s_kv",
     "sk=1024"},
    {"head_dim headdim dim_head hdim head_size dim d_head head_dim_qk qk_head_dim d_qk d_k", "d=128"},
    {"head_dim_v headdim_v v_head_dim head_dim_vo head_size_v value_dim d_v d_vo", "dv=128"},
    {"num_tokens total_tokens total_q num_q_tokens", "tq=4096"},
    {"total_k total_kv num_kv_tokens", "tk=4096"},

    {"is_causal causal_mask use_causal_mask", "mask=causal", "in Python causal=True"},
    {"causal causal_bottom_right bottom_right", "mask=causal"},
    {"no_mask nomask without_mask full full_attention full_mask non_causal noncausal not_causal none",
     "mask=none", "which is the default"},
    {"top_left", "mask=causal_top_left"},
    {"window window_size sliding_window sliding_window_size local_window_size attention_window "
     "local_attention",
     "mask=window:128,0", in_python_window},
    {"attn_mask attention_mask custom_mask block_mask bool_mask", "bits",
     "for a boolean mask, or bias=bh for one that is added to the scores"},
    {"mask_ranges document_mask startend_row_indices attn_mask_startend_row_indices", "ranges"},
    {"attn_bias attention_bias position_bias rel_pos_bias relative_position_bias", "bias=bh"},
    {"score_mod", "score=s*2.0", "a function of the scaled score s"},
    {"mask_mod", "keep=kv<q", "a function that says which keys a query sees"},
    {"bias_dtype attn_bias_dtype attn_mask_dtype mask_dtype", "bias_type=fp32"},
    {"alibi_slopes use_alibi has_alibi slopes", "bias=alibi", "with the slopes as the tensor alibi"},
    {"bias_grad d_bias", "dbias"},
    {"lse_grad d_lse", "dlse"},
    {"sinks s_aux attn_sink attn_sinks attention_sink attention_sinks learnable_sink sink_logits "
     "softmax_offset",
     "sink"},
    {"sm_scale softmax_scale scaling attn_scale scale_factor qk_scale", "scale=0.125"},
    {"soft_cap softcapping logit_cap logits_cap logit_softcap logits_soft_cap attn_logit_softcapping "
     "attn_logits_soft_cap logit_softcapping tanh_softcap",
     "softcap=30"},
    {"dropout_p p_dropout attn_dropout attention_dropout dropout_prob dropout_rate", "dropout=0.1"},
    {"return_dropout_mask return_s return_attn_probs return_attn_weights", "dropout_mask"},
    {"return_lse return_softmax_lse softmax_lse need_lse with_lse logsumexp return_logsumexp "
     "compute_logsumexp",
     "lse"},
    {"max_scores max_logits return_max_logits max_logit", "row_max"},
    {"is_deterministic determinism", "deterministic"},

    {"cu_seqlens cu_seqlens_q cu_seqlens_k cu_seqlens_kv cu_seq_lens cu_seq_q cu_seq_k q_indptr qo_indptr "
     "kv_indptr indptr thd ragged packed jagged nested is_varlen var_len",
     "varlen", "with the tensors offsets_q and offsets_k"},
    {"seqused seqused_q seqused_k cache_seqlens cache_lens seqlens seq_lens kv_lens kv_lengths "
     "actual_seq_lens context_lens padding_mask key_padding_mask valid_len",
     "lengths", "with the tensors lengths_q and lengths_k"},

    {"page_size block_size kv_page_size kv_block_size tokens_per_block", "paged=16"},
    {"page_table page_tables block_table block_tables paged_kv paged_attention paged_kv_cache block_offsets",
     "paged=16", "with the tensor page_table"},
    {"kv_indices paged_kv_indices paged_kv_indptr paged_kv_last_page_len last_page_len kv_last_page_len",
     "table=sglang", "with the tensors page_list, page_offsets and last_page_lengths"},
    {"num_pages num_blocks total_num_pages", "pages=256"},
    {"num_new new_tokens seqlen_new seqlen_knew knew k_new", "snew=1"},
    {"cu_seqlens_k_new total_new", "tnew=64", "with the tensor offsets_new"},
    {"slot_mapping out_cache_loc write_index", "slots=int64", "with the tensor slots"},
    {"cache_leftpad leftpad left_pad", "left_padding", "with the tensor left_padding"},
    {"rotary_seqlens rope_positions", "positions=sequence", "with the tensor positions"},
    {"kv_cache_dtype kv_dtype cache_dtype kv_data_type", "kv=fp8"},
    {"use_mla is_mla mla_absorb", "latent", "without the tensor v"},
    {"kpe_cache k_pe_cache", "k_rope", "with the tensor k_rope"},
    {"cache_batch_idx cache_batch_indices batch_idx", "cache=8", "with the tensor cache_index"},
    {"rotary_dim rope_dim", "rotary=64"},
    {"rotary_cos rotary_sin rope_cos rope_sin", "rope=half", "with the tensors rope_cos and rope_sin"},
    {"rotary_interleaved is_rotary_interleaved interleaved_rope", "rope=interleaved"},
    {"neox is_neox_style neox_style", "rope=half"},

    {"num_splits n_splits split_k split_kv kv_splits num_kv_splits", "splits=4"},
    {"qkv_format qkv_layout input_layout tensor_layout tensor_format", "layout=bhsd"},
    {"nhd bsnd", "layout=bshd"},
    {"hnd bnsd", "layout=bhsd"},
    {"q_descale k_descale v_descale fp8_scale scale_q scale_k scale_v k_scale v_scale", "descale=tensor"},
};

const OtherNames* row_of(std::string_view name) {
  const auto& names = process_lifetime<[] {
    std::vector<std::string_view> all;
    for (const OtherNames& row : table)
      for (const std::string_view other : split(row.names, " ")) all.push_back(other);
    return all;
  }>();
  const std::string_view nearest = nearest_within(name, names, 4);
  for (const OtherNames& row : table)
    for (const std::string_view other : split(row.names, " "))
      if (!nearest.empty() && other == nearest) return &row;
  return nullptr;
}

/// The row's word with the caller's value instead of the example's, which follows "=" or ":". Of two numbers
/// the caller may have given only the first.
std::string with_value(std::string_view word, std::string_view value) {
  std::string kept;
  for (const char c : value)
    if (std::string_view("() ").find(c) == std::string_view::npos) kept += c;
  const std::size_t begin = word.find_last_of("=:") + 1, second = word.find(',', begin);
  if (second != std::string_view::npos && kept.find(',') == std::string::npos) kept += word.substr(second);
  return std::string(word.substr(0, begin)) + kept;
}

/// "in Python window=(3, 0)" for "mask=window:3,0"; nothing where the window has more than two numbers.
std::string note_of(const OtherNames& row, std::string_view word) {
  if (row.note != in_python_window) return std::string(row.note);
  const std::vector<std::string_view> numbers = split(word.substr(word.find(':') + 1), ",");
  if (numbers.size() != 2) return {};
  return std::string(row.note) + "(" + std::string(numbers[0]) + ", " + std::string(numbers[1]) + ")";
}

/// The opposite of the row's word: "mask=none" for "mask=causal"; for a bare word, to leave it out.
std::optional<OtherName> opposite_of(const OtherNames& row,
                                     const std::function<bool(std::string_view)>& accepts) {
  const std::size_t equals = row.word.find('=');
  if (equals == std::string_view::npos) return OtherName{std::string(row.word), {}, /*denied=*/true};
  std::string none = std::string(row.word.substr(0, equals)) + "=none";
  if (none == row.word || !accepts(none)) return std::nullopt;
  return OtherName{std::move(none), "which is the default"};
}

std::string all_types() {
  std::string text;
  const std::span<const WordInfo> types = words_of<DType>();
  for (std::size_t i = 0; i < types.size(); ++i)
    text += (i == 0 ? "" : i + 1 < types.size() ? ", " : " and ") + std::string(types[i].word);
  return text;
}

}  // namespace

std::span<const OtherNames> other_name_table() {
  return table;
}

bool says_no(std::string_view value) {
  const std::string text = lower(value);
  return text == "0" || text == "false" || text == "no" || text == "off" || text == "none";
}

std::string why_no_word(std::string_view name) {
  const std::string text = lower(name.substr(0, name.find(':')));
  const auto is_one_of = [&](std::string_view names) {
    const std::vector<std::string_view> list = split(names, " ");
    return std::ranges::find(list, text) != list.end();
  };
  if (is_one_of("float64 fp64 f64 double torch.float64 torch.double uint8 int4 fp4 nvfp4 mxfp4 mxfp8 tf32"))
    return "the types are " + all_types();
  if (is_one_of("seed rng_seed philox_seed dropout_seed"))
    return "a seed is an argument of the call and no part of the problem; regard run takes it as --seed";
  if (is_one_of("threads num_threads n_threads nthreads"))
    return "the number of threads is an option of the call and no part of the problem; the command regard "
           "takes it as --threads";
  return {};
}

std::optional<OtherName> find_other_name(std::string_view written,
                                         const std::function<bool(std::string_view)>& accepts) {
  constexpr std::size_t longest = 200;  // nothing longer is anyone's word for anything
  if (written.size() > longest) return std::nullopt;
  std::string text = lower(written);
  if (const std::size_t colon = text.find(':'); colon < text.find('=')) text[colon] = '=';
  // One of our words in capitals, or with a colon instead of "=".
  if (text != written && accepts(text)) return OtherName{text, {}};
  const std::size_t equals = std::min(text.find('='), text.size());
  std::string name = text.substr(0, equals);
  const std::string value = equals < text.size() ? text.substr(equals + 1) : "";
  std::ranges::replace(name, '-', '_');
  const OtherNames* const row = row_of(name);
  if (row == nullptr || row->word == written || !accepts(row->word)) return std::nullopt;
  const bool denied = says_no(value);
  if (denied)
    if (std::optional<OtherName> opposite = opposite_of(*row, accepts)) return opposite;
  if (!value.empty() && row->word.find_last_of("=:") != std::string_view::npos) {
    if (std::string own = with_value(row->word, value); accepts(own)) {
      const std::string note = denied ? "" : note_of(*row, own);
      return OtherName{std::move(own), note};
    }
  }
  if (denied) return std::nullopt;
  return OtherName{std::string(row->word), note_of(*row, row->word)};
}

}  // namespace regard
