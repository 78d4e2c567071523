// What is meaningless on every target. Each rule is a small function that accepts or says why not and what
// would work; the list at the end is evaluated from top to bottom.
#include <cmath>

#include "problem/fields.h"
#include "problem/functions.h"
#include "problem/tensors.h"
#include "problem/values.h"

namespace regard {
namespace {

std::string pair(std::string_view name, std::string_view value) {
  return std::string(name) + "=" + std::string(value);
}
template <class Value>
std::string pair(std::string_view name, const Value& value) {
  return pair(name, std::string_view(value_text(value)));
}

Status at_least(std::string_view name, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return invalid(pair(name, value) + " is too small; " + std::string(name) + " is at least " +
                 std::to_string(least));
}

// Windows and sizes are added to each other; below this limit no such sum leaves 64 bits.
constexpr std::int64_t largest_size = std::int64_t{1} << 61;

Status sizes(const Problem& p) {
  struct Size {
    std::string_view name;
    std::int64_t value, least;
  };
  const Size table[] = {
      {"b", p.b, 0},
      {"hq", p.hq, 1},
      {"hk", p.hk, 1},
      {"sq", p.sq, 0},
      {"sk", p.sk, 0},
      {"d", p.d, 1},
      {"dv", p.dv, 1},
      {"tq", p.tq, 0},
      {"tk", p.tk, 0},
      {"snew", p.snew, 0},
      {"tnew", p.tnew, 0},
      {"cache", p.cache, 0},
      {"pages", p.pages, 0},
      {"rope_rows", p.rope_rows, 0},
      {"parts", p.parts, 0},
      {"splits", p.splits, 0},
      {"paged", p.paged, 0},
      {"rotary", p.rotary, 0},
      {"sink", p.sink_tokens, 0},
      {"window left", p.window_left, -1},
      {"window right", p.window_right, -1},
  };
  if (p.d == 0) return invalid("d is missing; give the head dimension, such as d=64");
  for (const Size& size : table) {
    if (Status status = at_least(size.name, size.value, size.least); !status) return status;
    if (size.value > largest_size) {
      const bool window = size.name.starts_with("window");
      return invalid(pair(size.name, size.value) + " is too large; " + std::string(size.name) +
                     " is at most 2^61" + (window ? ", or -1 for unbounded" : ""));
    }
  }
  return {};
}

Status head_groups(const Problem& p) {
  if (p.hq % p.hk == 0) return {};
  return invalid(pair("hq", p.hq) + " is not a multiple of " + pair("hk", p.hk) +
                 "; each key/value head serves the same number of query heads");
}

Status head_dims(const Problem& p) {
  if (p.d == 576 && p.dv == 512) return {};  // absorbed MLA
  if (p.d <= 512 && p.dv <= 512) return {};
  return invalid(pair("d", p.d) + " " + pair("dv", p.dv) +
                 " is too large; d and dv are 1 to 512, or d=576 with dv=512");
}

/// V is a part of K.
Status latent(const Problem& p) {
  if (!p.latent) {
    if (!p.k_rope) return {};
    return invalid("k_rope needs latent: it has the columns of K that are not V");
  }
  if (p.pass == Pass::bwd || p.pass == Pass::merge) {
    return invalid("latent does not go with " + std::string(word(p.pass)) + "; it is for fwd and append" +
                   (p.pass == Pass::bwd ? ", so give V as a tensor of its own for gradients" : ""));
  }
  if (p.k_rope && p.dv >= p.d)
    return invalid(pair("dv", p.dv) + " is not below " + pair("d", p.d) +
                   ", and k_rope has d - dv columns of K");
  if (p.dv > p.d)
    return invalid(pair("dv", p.dv) + " is above " + pair("d", p.d) +
                   "; with latent V is the first dv columns of K");
  if (p.descale == Descale::token && writes_cache(p)) {
    return invalid(
        "latent does not go with descale=token and new tokens, whose V has no factor of its own; give "
        "descale=tensor or descale=head");
  }
  if (is_vectorized(p)) {
    return invalid(
        "latent does not go with kv_layout=vectorized, which stores V unlike K; use kv_layout=linear");
  }
  return {};
}

/// K and V can have an 8-bit type of their own.
Status cache_dtype(const Problem& p) {
  if (p.dtype == DType::int8)
    return invalid("int8 is a type of K and V alone; give the type of Q and kv=int8, such as bf16 kv=int8");
  if (p.kv == p.dtype) return {};
  if (p.pass == Pass::bwd)
    return invalid(pair("kv", p.kv) +
                   " does not go with bwd, where K and V have the type of Q; leave kv out");
  if (bytes_of(p.dtype) == 1) {
    return invalid(pair("kv", p.kv) + " does not go with " + std::string(word(p.dtype)) +
                   " queries, whose K and V have the same type; leave kv out");
  }
  if (bytes_of(p.kv) != 1) {
    return invalid(pair("kv", p.kv) + " does not go with " + std::string(word(p.dtype)) +
                   " queries; K and V have their type, or fp8, fp8_e5m2, int8, fp8_fnuz or fp8_e5m2_fnuz");
  }
  return {};
}

Status output_dtype(const Problem& p) {
  if (p.pass == Pass::merge) {
    if (bytes_of(p.out) != 1 && bytes_of(p.dtype) != 1) return {};
    return invalid("merge reads and writes bf16, fp16 or fp32; " +
                   std::string(word(bytes_of(p.dtype) == 1 ? p.dtype : p.out)) + " is neither");
  }
  const bool eight_bits = bytes_of(p.dtype) == 1;
  if (!eight_bits && p.out != p.dtype) {
    return invalid(pair("out", p.out) + " does not go with " + std::string(word(p.dtype)) +
                   " inputs; their output has the same type, so drop out=");
  }
  if (eight_bits && bytes_of(p.out) == 1 && p.out != p.dtype) {
    return invalid(pair("out", p.out) + " does not go with " + std::string(word(p.dtype)) +
                   " inputs; use bf16, fp16, fp32 or the input's own type");
  }
  return {};
}

Status eight_bit_inputs(const Problem& p) {
  const bool eight_bits = bytes_of(p.dtype) == 1;
  if (eight_bits && p.pass == Pass::bwd) {
    return invalid("bwd does not take " + std::string(word(p.dtype)) + "; backward is bf16, fp16 or fp32");
  }
  return {};
}

/// Factors of columns of a latent K.
Status column_factors(const Problem& p) {
  if (p.descale != Descale::columns) return {};
  if (!p.k_rope) {
    return invalid(
        "descale=columns needs latent k_rope: it is for the columns of V in a latent K, beside k_rope of Q's "
        "type; use descale=token or descale=head");
  }
  if (bytes_of(p.dtype) == 1) {
    return invalid("descale=columns does not go with " + std::string(word(p.dtype)) +
                   " queries, as k_rope has the type of Q; give bf16, fp16 or fp32 queries");
  }
  if (p.dv % factor_columns == 0) return {};
  return invalid(
      pair("dv", p.dv) + " is not a multiple of " + std::to_string(factor_columns) +
      ", the columns that share a factor with descale=columns; use descale=tensor or descale=head");
}

Status descale_factors(const Problem& p) {
  if (p.descale == Descale::none) {
    if (p.kv != DType::int8) return {};
    return invalid("kv=int8 needs factors: descale=tensor, descale=head, descale=token or descale=page");
  }
  if (Status status = column_factors(p); !status) return status;
  if (p.pass == Pass::bwd)
    return invalid(pair("descale", p.descale) +
                   " does not go with bwd, which takes no 8-bit tensors; leave it out");
  if (bytes_of(p.kv) != 1)
    return invalid(pair("descale", p.descale) + " needs 8-bit K and V, such as kv=fp8; leave descale out");
  if (p.descale == Descale::page && p.paged == 0)
    return invalid("descale=page needs a paged cache, such as paged=16");
  if (bytes_of(p.dtype) != 1) return {};
  if (p.pass == Pass::append || (p.descale == Descale::token && writes_cache(p))) {
    return invalid(pair("descale", p.descale) + " does not go with new tokens of " +
                   std::string(word(p.dtype)) +
                   ", which are copied and not quantised; give bf16, fp16 or fp32 tokens and " +
                   pair("kv", p.kv) + (p.pass == Pass::append ? ", or leave descale out" : ""));
  }
  return {};
}

Status positional_mask(const Problem& p) {
  const bool window = p.mask == Mask::window || p.mask == Mask::window_top_left;
  if (window) return {};
  if (p.window_left != -1 || p.window_right != -1) {
    return invalid("window numbers need a window: " + pair("mask", p.mask) +
                   " takes none, mask=window:L,R takes them");
  }
  if (p.sink_tokens != 0) {
    return invalid(pair("sink_tokens", p.sink_tokens) +
                   " needs a window, as sink tokens stay visible left of it: mask=window:L,R,sink=N");
  }
  return {};
}

// Kernels hold both as fp32 and divide one by the other: within this limit the quotient is finite as well.
constexpr double largest_modifier = 1e18;

Status score_modifiers(const Problem& p) {
  const bool caps = p.softcap >= 1 / largest_modifier && p.softcap <= largest_modifier;
  if (!caps && p.softcap != 0) {
    return invalid(pair("softcap", p.softcap) +
                   " is not a cap; it is a number between 1e-18 and 1e18, or 0 for none");
  }
  if (p.scale && !(std::fabs(*p.scale) <= largest_modifier)) {
    return invalid(
        pair("scale", p.scale) +
        " is not between -1e18 and 1e18, where fp32 scores stay finite; leave it out for 1/sqrt(d)");
  }
  return {};
}

Status bias_type(const Problem& p) {
  const DType usual = default_bias_type(p.dtype);
  if (p.bias_type == usual) return {};
  if (p.bias_type != DType::fp32) {
    const std::string types = (usual == DType::fp32 ? "" : std::string(word(usual)) + " or ") + "fp32";
    return invalid(pair("bias_type", p.bias_type) + " does not go with " + std::string(word(p.dtype)) +
                   " inputs; with them a bias is " + types);
  }
  if (has_elementwise_bias(p.bias)) return {};
  return invalid(pair("bias_type", p.bias_type) + " needs an elementwise bias, such as bias=bh" +
                 (has_alibi(p.bias) ? "; slopes of ALiBi are always fp32" : ""));
}

Status bias_gradient(const Problem& p) {
  if (!p.dbias) return {};
  if (p.pass != Pass::bwd) return invalid("dbias needs bwd; a forward problem writes no gradients");
  if (has_alibi(p.bias)) {
    return invalid("dbias does not go with " + pair("bias", p.bias) +
                   ": ALiBi slopes have no gradient here; use an elementwise bias such as bias=bh");
  }
  if (p.bias == Bias::none) return invalid("dbias needs an elementwise bias, such as bias=bh");
  return {};
}

Status lse_gradient(const Problem& p) {
  if (!p.dlse || p.pass == Pass::bwd) return {};
  return invalid("dlse needs bwd; a forward problem reads no gradients");
}

Status dropout(const Problem& p) {
  if (!(p.dropout >= 0 && p.dropout < 1)) {
    return invalid(pair("dropout", p.dropout) + " is outside [0, 1); 0 is off, 1 would drop everything");
  }
  constexpr double finest = 1.0 / 256;  // of the random bytes that a mask is made from
  if (p.dropout > 0 && (p.dropout < finest || p.dropout > 1 - finest)) {
    return invalid(
        pair("dropout", p.dropout) +
        " is finer than a dropout mask, which drops in steps of 1/256: give 0, or from 1/256 to 255/256");
  }
  if (p.keep_scale && p.dropout == 0) {
    return invalid(pair("keep_scale", p.keep_scale) +
                   " needs dropout, such as dropout=0.1: it is the factor of the weights that are kept");
  }
  if (p.keep_scale && !(*p.keep_scale > 0 && *p.keep_scale <= largest_modifier)) {
    return invalid(
        pair("keep_scale", p.keep_scale) +
        " is not above 0 and at most 1e18; leave it out for 1 / the true probability of being kept");
  }
  if (!p.dropout_mask) return {};
  if (p.dropout == 0) return invalid("dropout_mask needs dropout, such as dropout=0.1");
  if (p.pass != Pass::fwd) return invalid("dropout_mask needs fwd; only forward writes the mask");
  return {};
}

Status forward_only(const Problem& p) {
  if (p.pass == Pass::fwd) return {};
  const std::string pass(word(p.pass));
  if (p.row_max) return invalid("row_max does not go with " + pass + "; only fwd has scores of whole rows");
  if (p.lse && p.pass != Pass::merge)
    return invalid("lse does not go with " + pass + "; only fwd and merge write LSE (bwd always reads it)");
  if (p.batch_invariant)
    return invalid("batch_invariant does not go with " + pass + "; it is a promise of fwd");
  if (p.splits != 0)
    return invalid(pair("splits", p.splits) + " does not go with " + pass + "; only fwd splits the keys");
  return {};
}

Status splits(const Problem& p) {
  if (p.splits > 128) return invalid(pair("splits", p.splits) + " is too many; use 1 to 128, or auto");
  if (p.splits > 1 && p.batch_invariant) {
    return invalid(pair("splits", p.splits) +
                   " does not go with batch_invariant, as it divides the longest length of the batch; use "
                   "splits=1 or auto");
  }
  return {};
}

Status varlen_sequences(const Problem& p) {
  if (p.varlen) {
    if (p.layout != Layout::bshd) {
      return invalid(pair("layout", p.layout) +
                     " does not go with varlen, whose tensors are [tokens, heads, dim]; leave layout out");
    }
    if (p.tk != 0 && !packs_keys(p))
      return invalid(pair("tk", p.tk) +
                     " does not go with a KV cache, whose keys are not packed; leave tk out");
    return {};
  }
  if (p.tq != 0) return invalid(pair("tq", p.tq) + " needs varlen; dense problems have b * sq query tokens");
  if (p.tk != 0) return invalid(pair("tk", p.tk) + " needs varlen; dense problems have b * sk key tokens");
  return {};
}

Status too_many(std::int64_t count, std::string_view what, std::string_view reason,
                std::string_view remedy = "") {
  return invalid(std::to_string(count) + " " + std::string(what) + " are too many for " +
                 std::string(reason) + ", whose int32 numbers end at 2147483647" + std::string(remedy));
}

/// Which word makes the positions of queries and keys int32; empty: none.
std::string_view word_of_positions(const Problem& p) {
  const std::pair<bool, std::string_view> words[] = {
      {p.varlen, "varlen"},     {p.lengths, "lengths"},           {p.ranges, "ranges"},
      {p.paged > 0, "paged"},   {p.left_padding, "left_padding"}, {!p.score.empty(), "score"},
      {!p.keep.empty(), "keep"}};
  for (const auto& [given, word] : words)
    if (given) return word;
  return {};
}

/// Offsets, lengths, ranges, and the numbers of pages and sequences are int32.
Status thirty_two_bit_positions(const Problem& p) {
  const Dimensions keys = tensor_spec(p, REGARD_K).shape;
  if (p.paged > 0 && keys[0] > INT32_MAX)
    return too_many(keys[0], "pages", "a page table", "; use larger pages");
  if (p.cache > INT32_MAX) return too_many(p.cache, "sequences", "cache_index");
  if (p.tnew > INT32_MAX && p.slots == SlotType::none) return too_many(p.tnew, "new tokens", "offsets_new");
  if (p.slots == SlotType::int32) {
    std::int64_t rows = 0;
    if (__builtin_mul_overflow(keys[0], p.paged > 0 ? p.paged : p.sk, &rows)) rows = INT64_MAX;
    if (rows - 1 > INT32_MAX) return too_many(rows, "rows of the cache", "slots=int32", "; use slots=int64");
  }
  const std::string_view reason = word_of_positions(p);
  if (reason.empty()) return {};
  const std::int64_t query_rows = p.varlen ? tensor_spec(p, REGARD_Q).shape[0] : p.sq;
  const std::int64_t key_rows = packs_keys(p) ? keys[0] : p.sk;
  if (query_rows > INT32_MAX && p.pass != Pass::append) return too_many(query_rows, "query rows", reason);
  if (key_rows > INT32_MAX && p.pass != Pass::merge) return too_many(key_rows, "key rows", reason);
  return {};
}

Status paged_cache(const Problem& p) {
  if (p.paged == 0) {
    if (p.table != PageTable::vllm)
      return invalid(pair("table", p.table) + " needs a paged cache, such as paged=16");
    if (p.kv_layout != KvLayout::linear) {
      return invalid(pair("kv_layout", p.kv_layout) + " needs a paged cache, such as paged=16");
    }
    if (p.pages != 0) return invalid(pair("pages", p.pages) + " needs a paged cache, such as paged=16");
    return {};
  }
  if (p.pass == Pass::bwd)
    return invalid(pair("paged", p.paged) + " does not go with bwd; a KV cache is for fwd and append");
  if (p.kv_layout == KvLayout::vectorized) {
    const std::int64_t x = 16 / static_cast<std::int64_t>(bytes_of(p.kv));
    for (const auto& [name, value] :
         {std::pair("paged", p.paged), std::pair("d", p.d), std::pair("dv", p.dv)}) {
      if (value % x == 0) continue;
      return invalid(pair(name, value) + " is not a multiple of " + std::to_string(x) +
                     ", as kv_layout=vectorized needs with " + std::string(word(p.kv)) +
                     "; use kv_layout=linear");
    }
  }
  if (p.pass == Pass::append && p.table == PageTable::sglang && p.lengths) {
    return invalid(
        "lengths does not go with append and table=sglang, as the pages of a sequence and the length of its "
        "last page say how long it is; leave lengths out");
  }
  return {};
}

Status rotary_embedding(const Problem& p) {
  if (p.rope == Rope::none) {
    if (p.rotary != 0) return invalid(pair("rotary", p.rotary) + " needs rope=interleaved or rope=half");
    if (p.rope_rows != 0)
      return invalid(pair("rope_rows", p.rope_rows) + " needs rope=interleaved or rope=half");
    if (p.rope_type != default_type(Field::rope_type, p.dtype))
      return invalid(pair("rope_type", p.rope_type) + " needs rope=interleaved or rope=half");
    if (p.positions != Positions::length)
      return invalid(pair("positions", p.positions) + " needs rope=interleaved or rope=half");
    return {};
  }
  if (!writes_cache(p)) {
    return invalid(pair("rope", p.rope) +
                   " needs append, or fwd with new tokens such as snew=1; otherwise inputs come rotated");
  }
  if (bytes_of(p.dtype) == 1)
    return invalid(pair("rope", p.rope) + " does not go with " + std::string(word(p.dtype)) +
                   "; append bf16, fp16 or fp32");
  const std::int64_t most = p.d - first_rotated(p);
  const std::string limit =
      p.latent ? "d - dv = " + std::to_string(most) + ", as latent rotates columns after those of V"
               : pair("d", p.d);
  if (p.rotary == 0)
    return invalid(pair("rope", p.rope) +
                   " needs rotary=N, how many columns it rotates: an even number up to " + limit);
  if (p.rotary % 2 != 0 || p.rotary > most) {
    return invalid(pair("rotary", p.rotary) + " is not an even number between 2 and " + limit);
  }
  if (p.rope_type != p.dtype && p.rope_type != DType::fp32) {
    const std::string type(word(p.dtype));
    return invalid(pair("rope_type", p.rope_type) + " does not go with " + type + "; the tables are " +
                   (p.dtype == DType::fp32 ? type : type + " or fp32"));
  }
  if (p.positions == Positions::token && p.pass != Pass::append) {
    return invalid(
        "positions=token needs append; in fwd the tokens of a sequence have consecutive positions, from "
        "positions=sequence on");
  }
  return {};
}

/// New tokens, written by append or by fwd before it attends.
Status new_tokens(const Problem& p) {
  if (!writes_cache(p)) {
    if (p.pass != Pass::append) return {};
    return invalid("append needs new tokens, such as snew=1, or tnew=64 with slots=int64");
  }
  if (p.pass != Pass::fwd && p.pass != Pass::append) {
    return invalid((p.snew != 0 ? pair("snew", p.snew) : pair("tnew", p.tnew)) + " needs append or fwd; " +
                   std::string(word(p.pass)) + " writes no cache");
  }
  if (p.slots != SlotType::none) return {};
  if (p.snew == 0) {
    return invalid(pair("tnew", p.tnew) +
                   " needs snew=N, the most new tokens of a sequence, or slots=int64, a slot for each token");
  }
  if (p.snew > p.sk) {
    return invalid(pair("snew", p.snew) + " new tokens do not fit; a sequence has room for " +
                   pair("sk", p.sk));
  }
  if (p.varlen && packs_keys(p)) {
    return invalid("varlen does not go with " + pair("snew", p.snew) +
                   " unless K and V are a cache: give cache=N for its sequences, or paged=16");
  }
  return {};
}

/// Where append writes each token.
Status slots(const Problem& p) {
  if (p.slots == SlotType::none) return {};
  if (p.pass != Pass::append) {
    return invalid(pair("slots", p.slots) +
                   " needs append; fwd writes new tokens after the keys of their sequence");
  }
  if (p.tnew == 0 || p.snew != 0) {
    return invalid(pair("slots", p.slots) + " needs tnew=N, the number of tokens with a slot each" +
                   (p.snew != 0 ? ", and no snew" : ""));
  }
  const bool table = p.table != PageTable::vllm;
  if (p.lengths || p.left_padding || table) {
    return invalid(pair("slots", p.slots) + " does not go with " +
                   (p.lengths ? "lengths"
                    : table   ? pair("table", p.table)
                              : "left_padding") +
                   ", as a slot already says the row of the cache; leave it out");
  }
  if (p.rope != Rope::none && p.positions != Positions::token) {
    return invalid(pair("slots", p.slots) + " with " + pair("rope", p.rope) +
                   " needs positions=token, as a slot does not say the position of its token");
  }
  return {};
}

/// A dense cache.
Status cache_sequences(const Problem& p) {
  if (p.cache == 0) return {};
  if (p.pass != Pass::fwd && p.pass != Pass::append)
    return invalid(pair("cache", p.cache) + " needs fwd or append; leave cache out");
  if (p.paged > 0) {
    return invalid(pair("cache", p.cache) + " does not go with " + pair("paged", p.paged) +
                   ", whose page table says where sequences lie; leave cache out");
  }
  return {};
}

Status left_padding(const Problem& p) {
  if (!p.left_padding) return {};
  if (p.pass != Pass::fwd && p.pass != Pass::append)
    return invalid("left_padding needs fwd or append; leave it out");
  if (packs_keys(p)) {
    return invalid(
        "left_padding does not go with varlen unless K and V are a cache: give cache=N for its sequences, or "
        "paged=16");
  }
  return {};
}

/// append and merge compute no attention.
Status no_attention(const Problem& p) {
  const bool append = p.pass == Pass::append, merge = p.pass == Pass::merge;
  if (!append && !merge) return {};
  const std::pair<bool, std::string_view> excluded[] = {
      {p.mask != Mask::none, "mask"},
      {p.ranges, "ranges"},
      {p.bits, "bits"},
      {p.bias != Bias::none, "bias"},
      {p.sink, "sink"},
      {p.softcap != 0, "softcap"},
      {p.dropout != 0, "dropout"},
      {!p.score.empty(), "score"},
      {!p.keep.empty(), "keep"},
      {p.scale.has_value(), "scale"},
      {append && p.varlen, "varlen"},
      {append && p.out != default_out(p.dtype), "out"},
      {merge && p.lengths, "lengths"},
      {merge && p.paged > 0, "paged"},
      {merge && p.kv != p.dtype, "kv"},
      {merge && p.descale != Descale::none, "descale"},
      {merge && p.rope != Rope::none, "rope"},
  };
  for (const auto& [used, word_of_it] : excluded) {
    if (!used) continue;
    const std::string remedy = merge                    ? ""
                               : word_of_it == "varlen" ? "; packed new tokens are tnew=N"
                                                        : ", or use fwd with new tokens";
    return invalid(std::string(word_of_it) + " does not go with " + std::string(word(p.pass)) +
                   ", which computes no attention; leave it out" + remedy);
  }
  return {};
}

Status merged_parts(const Problem& p) {
  const bool merge = p.pass == Pass::merge;
  if (!merge && (p.parts != 0 || p.accumulate)) {
    return invalid((p.accumulate ? std::string("accumulate") : pair("parts", p.parts)) +
                   " needs merge, which reads partial results; leave it out");
  }
  if (merge && p.parts == 0)
    return invalid("merge needs parts=N, the number of partial results that it reads");
  return {};
}

/// Refuses words beside score= that change scores, and says what score= can say in their place.
Status one_change_of_scores(const Problem& p) {
  if (p.score.empty()) return {};
  const auto both = [](const std::string& word, const std::string& text) {
    return invalid("score cannot be combined with " + word + ": leave " + word + " out, and write " + text +
                   " instead of s");
  };
  if (p.softcap != 0) {
    const std::string cap = value_text(p.softcap);
    return both(pair("softcap", p.softcap), cap + "*tanh(s/" + cap + ")");
  }
  switch (p.bias) {
    case Bias::none:
      return {};
    case Bias::one_one:
      return both("bias=11", "s+bias[0,0,q,kv] with tensors=bias:fp32[4]");
    case Bias::one_head:
      return both("bias=1h", "s+bias[0,h,q,kv] with tensors=bias:fp32[4]");
    case Bias::batch_one:
      return both("bias=b1", "s+bias[b,0,q,kv] with tensors=bias:fp32[4]");
    case Bias::batch_head:
      return both("bias=bh", "s+bias[b,h,q,kv] with tensors=bias:fp32[4]");
    case Bias::alibi:
      return both("bias=alibi", "s-slope[h]*abs(kv-p) with tensors=slope:fp32[1]");
    case Bias::alibi_batch:
      return both("bias=alibi_b", "s-slope[b,h]*abs(kv-p) with tensors=slope:fp32[2]");
  }
  return {};
}

/// Which tensors a function reads.
std::vector<bool> tensors_read(const function::Function& f) {
  std::vector<bool> read(f.tensors.size());
  for (const function::Node& node : f.tree.nodes())
    if (node.kind == function::Kind::load) read[node.which] = true;
  return read;
}

Status functions(const Problem& p) {
  if (!has_function(p)) {
    const std::pair<bool, std::string_view> beside[] = {
        {!p.tensors.empty(), "tensors"}, {!p.grads.empty(), "grads"}, {p.numbers.count > 0, "numbers"}};
    for (const auto& [given, word] : beside)
      if (given)
        return invalid(std::string(word) +
                       " needs a function that reads them: score or keep, such as keep=kv<=q");
    return {};
  }
  const Result<Functions> all = functions_of(p);
  if (!all) return tl::unexpected(all.error());
  const std::vector<bool> by_score = tensors_read(all->score), by_keep = tensors_read(all->keep);
  for (std::size_t i = 0; i < all->tensors.size(); ++i) {
    if (by_score[i] || by_keep[i]) continue;
    return invalid("neither score nor keep depends on " + all->tensors[i].name + "; remove it");
  }
  if (!p.grads.empty() && p.pass != Pass::bwd)
    return invalid("grads needs bwd; a forward problem writes no gradients");
  for (const int gradient : all->gradients) {
    if (by_score[static_cast<std::size_t>(gradient)]) continue;
    return invalid("grads: only keep reads " + all->tensors[static_cast<std::size_t>(gradient)].name +
                   ", and a mask has no gradient; leave it out");
  }
  return one_change_of_scores(p);
}

/// Every tensor must fit in 64-bit byte addresses.
Status tensor_sizes(const Problem& p) {
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const TensorSpec spec = tensor_spec(p, static_cast<regard_role>(i));
    if (spec.use == REGARD_UNUSED) continue;
    std::int64_t bytes = static_cast<std::int64_t>(bytes_of(spec.dtype));
    bool overflow = false;
    for (const std::int64_t size : spec.shape) {
      overflow |= size == INT64_MAX || __builtin_mul_overflow(bytes, size, &bytes);
    }
    if (overflow) {
      return invalid("tensor '" + label(spec) +
                     "' of this problem has more than 2^63 bytes; use smaller sizes");
    }
  }
  return {};
}

using Rule = Status (*)(const Problem&);
constexpr Rule rules[] = {
    sizes,           head_groups,
    head_dims,       no_attention,
    latent,          cache_dtype,
    output_dtype,    eight_bit_inputs,
    descale_factors, positional_mask,
    score_modifiers, bias_type,
    bias_gradient,   lse_gradient,
    dropout,         forward_only,
    splits,          varlen_sequences,
    paged_cache,     rotary_embedding,
    new_tokens,      slots,
    cache_sequences, left_padding,
    merged_parts,    functions,
    tensor_sizes,    thirty_two_bit_positions,
};

}  // namespace

Status validate(const Problem& problem) {
  for (const Rule rule : rules) {
    if (Status status = rule(problem); !status) return status;
  }
  return {};
}

}  // namespace regard
