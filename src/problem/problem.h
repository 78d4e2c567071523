// The Problem: what a caller wants to compute. Its fields are declared once, in REGARD_PROBLEM_FIELDS below;
// equality, hash, problem text, JSON, CLI help, docs/problem.md and the cache identity are derived from that
// list.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/interned_text.h"
#include "base/result.h"
#include "function/canonical.h"
#include "kernels/factor_columns.h"

namespace regard {

// Each enumeration lists X(enumerator, "word in problem text and JSON", "what it means").
#define REGARD_PASS(X)                                                              \
  X(fwd, "fwd", "forward: O and, when asked, LSE")                                  \
  X(bwd, "bwd", "backward: gradients of Q, K, V and, when asked, of bias and sink") \
  X(append, "append", "write new keys and values into a cache, with optional RoPE") \
  X(merge, "merge", "merge partial results, O with its LSE, into one")

// Kernels for CUDA do not support the types of the second list, so their sources do not declare them.
#define REGARD_COMMON_DTYPE(X)                                       \
  X(fp32, "fp32", "32-bit float")                                    \
  X(bf16, "bf16", "bfloat16")                                        \
  X(fp16, "fp16", "IEEE half")                                       \
  X(fp8, "fp8", "OCP's 8-bit float e4m3 (finite, NaN, no infinity)") \
  X(fp8_e5m2, "fp8_e5m2", "OCP's 8-bit float e5m2")                  \
  X(int8, "int8", "8-bit integer of a KV cache, with descale factors")
#define REGARD_FNUZ_DTYPE(X)                                                                              \
  X(fp8_fnuz, "fp8_fnuz", "AMD's 8-bit float e4m3 of CDNA3, exponent bias 8 (finite, NaN instead of -0)") \
  X(fp8_e5m2_fnuz, "fp8_e5m2_fnuz", "AMD's 8-bit float e5m2 of CDNA3, exponent bias 16, likewise")
#define REGARD_DTYPE(X) REGARD_COMMON_DTYPE(X) REGARD_FNUZ_DTYPE(X)

#define REGARD_MASK(X)                                                                       \
  X(none, "none", "every key is visible")                                                    \
  X(causal, "causal", "bottom-right: key j is visible to query i when j <= i + sk - sq")     \
  X(causal_top_left, "causal_top_left", "top-left: key j is visible to query i when j <= i") \
  X(window, "window", "window:L,R around the bottom-right diagonal; -1 is unbounded")        \
  X(window_top_left, "window_top_left", "window:L,R,top_left around the top-left diagonal")

#define REGARD_BIAS(X)                            \
  X(none, "none", "no bias")                      \
  X(one_one, "11", "elementwise [1,1,sq,sk]")     \
  X(one_head, "1h", "elementwise [1,hq,sq,sk]")   \
  X(batch_one, "b1", "elementwise [b,1,sq,sk]")   \
  X(batch_head, "bh", "elementwise [b,hq,sq,sk]") \
  X(alibi, "alibi", "ALiBi, slopes fp32 [hq]")    \
  X(alibi_batch, "alibi_b", "ALiBi, slopes fp32 [b,hq]")

// Q has factors where it is 8-bit as well.
#define REGARD_DESCALE(X)                                                                           \
  X(none, "none", "no descale factors")                                                             \
  X(tensor, "tensor", "one fp32 factor for each of Q, K, V")                                        \
  X(head, "head", "fp32 [1|b,hk] factors for each of Q, K, V")                                      \
  X(token, "token", "fp32 factors of K and V for each row and head; one for Q. append writes them") \
  X(page, "page", "fp32 [pages,hk] factors of K and V; one for Q")                                  \
  X(columns, "columns",                                                                             \
    "an fp32 factor for each row and 128 of the dv columns of a latent K. append writes them")

#define REGARD_SLOTS(X)                                                                \
  X(none, "none", "new tokens follow the keys of their sequence")                      \
  X(int32, "int32", "each new token has a slot, its row of the cache; negative: none") \
  X(int64, "int64", "the same with 64-bit slots")

#define REGARD_POSITIONS(X)                                                               \
  X(length, "length", "new tokens begin at the length of their sequence's keys")          \
  X(sequence, "sequence", "positions int32 [b]: that of each sequence's first new token") \
  X(token, "token", "positions int32: that of each new token")

#define REGARD_PAGE_TABLE(X)                                   \
  X(vllm, "vllm", "page_table int32 [b, blocks], and lengths") \
  X(sglang, "sglang", "page_list with page_offsets and last_page_lengths")

#define REGARD_KV_LAYOUT(X)                         \
  X(linear, "linear", "pages [pages, page, hk, d]") \
  X(vectorized, "vectorized", "K [pages, hk, d/x, page*x], V [pages, hk, page/x, dv*x], x = 16 bytes")

#define REGARD_ROPE(X)                                     \
  X(none, "none", "no rotary embedding")                   \
  X(interleaved, "interleaved", "pairs (0,1), (2,3), ...") \
  X(half, "half", "pairs (i, i + rotary/2), as in GPT-NeoX")

#define REGARD_LAYOUT(X)                                                   \
  X(bshd, "bshd", "[b,s,h,d] in memory where the caller gives no strides") \
  X(bhsd, "bhsd", "[b,h,s,d]")                                             \
  X(sbhd, "sbhd", "[s,b,h,d]")

#define REGARD_ENUMERATOR(name, word, doc) name,
enum class Pass : std::uint8_t { REGARD_PASS(REGARD_ENUMERATOR) };
enum class DType : std::uint8_t { REGARD_DTYPE(REGARD_ENUMERATOR) };
enum class Mask : std::uint8_t { REGARD_MASK(REGARD_ENUMERATOR) };
enum class Bias : std::uint8_t { REGARD_BIAS(REGARD_ENUMERATOR) };
enum class Descale : std::uint8_t { REGARD_DESCALE(REGARD_ENUMERATOR) };
enum class SlotType : std::uint8_t { REGARD_SLOTS(REGARD_ENUMERATOR) };
enum class Positions : std::uint8_t { REGARD_POSITIONS(REGARD_ENUMERATOR) };
enum class PageTable : std::uint8_t { REGARD_PAGE_TABLE(REGARD_ENUMERATOR) };
enum class KvLayout : std::uint8_t { REGARD_KV_LAYOUT(REGARD_ENUMERATOR) };
enum class Rope : std::uint8_t { REGARD_ROPE(REGARD_ENUMERATOR) };
enum class Layout : std::uint8_t { REGARD_LAYOUT(REGARD_ENUMERATOR) };
#undef REGARD_ENUMERATOR

/// The word of an enumerator, e.g. word(DType::bf16) == "bf16" (problem/words.cpp, from the lists above).
std::string_view word(Pass);
std::string_view word(DType);
std::string_view word(Mask);
std::string_view word(Bias);
std::string_view word(Descale);
std::string_view word(SlotType);
std::string_view word(Positions);
std::string_view word(PageTable);
std::string_view word(KvLayout);
std::string_view word(Rope);
std::string_view word(Layout);

/// The numbers that functions take at run time, in order.
struct FunctionNumbers {
  std::array<function::Number, function::most_numbers> of{};
  std::uint8_t count = 0;
  friend constexpr bool operator==(const FunctionNumbers&, const FunctionNumbers&) = default;
};

/// An optional number; absent means that the documented default applies.
using OptionalScale = std::optional<double>;

// X(category, type, name, default, documentation)
//   SIGNATURE  changes the function computed or the code compiled
//   PRESENCE   the number is shape; whether it differs from its default is signature
//   SHAPE      a number known at call time
// A bool prints as its bare name, pass and dtype as their bare words, the rest as name=value. Composite
// words: h sets hq and hk, s sets sq and sk, d sets d and dv, mask=window:L,R[,top_left][,sink=N] sets the
// window fields.
#define REGARD_PROBLEM_FIELDS(X)                                                                        \
  X(SIGNATURE, Pass, pass, Pass::fwd, "fwd, bwd, append or merge")                                      \
  X(SIGNATURE, DType, dtype, DType::bf16, "type of Q, and of K and V where kv is not given")            \
  X(SIGNATURE, DType, kv, DType::bf16, "type of K and V: that of Q, or an 8-bit type")                  \
  X(SIGNATURE, DType, out, DType::bf16, "type of O; by default that of Q, bf16 for fp8 inputs")         \
  X(SIGNATURE, std::int64_t, d, 0, "head dimension of Q and K; also sets dv where dv is not given")     \
  X(SIGNATURE, std::int64_t, dv, 0, "head dimension of V and O")                                        \
  X(SIGNATURE, bool, varlen, false, "packed sequences [tokens, heads, dim] with cumulative offsets")    \
  X(SIGNATURE, bool, lengths, false, "logical lengths per sequence in addition to the physical ones")   \
  X(SIGNATURE, Mask, mask, Mask::none, "which keys a query sees by position")                           \
  X(SIGNATURE, bool, ranges, false, "int32 [1|b, sq, 2]: each query row sees only keys [lo, hi)")       \
  X(SIGNATURE, bool, bits, false, "uint32 [1|b, 1|hq, 1|sq, ceil(sk/32)]: packed visibility bits")      \
  X(SIGNATURE, Bias, bias, Bias::none, "added to the scaled scores")                                    \
  X(SIGNATURE, DType, bias_type, DType::bf16,                                                           \
    "type of the elementwise bias and its gradient: that of Q by default (fp32 for fp8), or fp32")      \
  X(SIGNATURE, bool, dbias, false, "backward also writes the gradient of the elementwise bias")         \
  X(SIGNATURE, bool, dlse, false, "backward also reads a gradient of LSE")                              \
  X(SIGNATURE, bool, sink, false, "learned sink: fp32 [hq], an extra logit in the softmax denominator") \
  X(SIGNATURE, bool, lse, false, "forward also writes LSE, fp32, natural log")                          \
  X(SIGNATURE, bool, dropout_mask, false,                                                               \
    "forward also writes the dropout mask, uint8 [b,hq,sq,sk], 1 = kept")                               \
  X(SIGNATURE, bool, row_max, false, "forward also writes each row's largest score, fp32")              \
  X(SIGNATURE, bool, deterministic, false, "backward gives the same bits on every run")                 \
  X(SIGNATURE, bool, batch_invariant, false, "a row's bits do not depend on what else is in the batch") \
  X(SIGNATURE, Descale, descale, Descale::none, "factors of 8-bit tensors")                             \
  X(SIGNATURE, bool, left_padding, false, "K and V of each sequence begin after its left padding")      \
  X(SIGNATURE, PageTable, table, PageTable::vllm, "kind of page table")                                 \
  X(SIGNATURE, KvLayout, kv_layout, KvLayout::linear, "memory layout of the pages")                     \
  X(SIGNATURE, bool, latent, false, "V is the first dv columns of K, and not given")                    \
  X(SIGNATURE, bool, k_rope, false, "the last d - dv columns of a latent K are a separate tensor")      \
  X(SIGNATURE, Rope, rope, Rope::none, "rotary embedding of new keys and of the queries")               \
  X(SIGNATURE, std::int64_t, rotary, 0, "how many columns rope rotates: the first, or those after V's") \
  X(SIGNATURE, DType, rope_type, DType::bf16, "type of the rope tables: that of Q by default, or fp32") \
  X(SIGNATURE, Positions, positions, Positions::length, "where rope finds the positions of new tokens") \
  X(SIGNATURE, SlotType, slots, SlotType::none, "where append writes new tokens")                       \
  X(SIGNATURE, bool, accumulate, false, "merge changes O and LSE in place: they are one more part")     \
  X(SIGNATURE, InternedText, score, InternedText(),                                                     \
    "a function of the scaled score, such as s-slope[h]*abs(kv-p)")                                     \
  X(SIGNATURE, InternedText, keep, InternedText(),                                                      \
    "a condition: which keys a query sees, such as doc[b,q]==doc[b,kv], in addition to masks")          \
  X(SIGNATURE, InternedText, tensors, InternedText(),                                                   \
    "the tensors that score and keep read, as name:type[dimensions], such as slope:fp32[1]")            \
  X(SIGNATURE, InternedText, grads, InternedText(), "the fp32 tensors whose gradients bwd writes")      \
  X(PRESENCE, std::int64_t, paged, 0, "page size of a paged KV cache; 0 means not paged")               \
  X(PRESENCE, double, softcap, 0.0, "S = softcap * tanh(S / softcap); 0 is off")                        \
  X(PRESENCE, double, dropout, 0.0, "probability of dropping a weight: 0, or from 1/256 to 255/256")    \
  X(SHAPE, std::int64_t, b, 1, "batch")                                                                 \
  X(SHAPE, std::int64_t, hq, 1, "query heads")                                                          \
  X(SHAPE, std::int64_t, hk, 1, "key/value heads; hq must be a multiple")                               \
  X(SHAPE, std::int64_t, sq, 0, "query length; with varlen the longest")                                \
  X(SHAPE, std::int64_t, sk, 0, "key length; with varlen or in a KV cache the longest")                 \
  X(SHAPE, std::int64_t, tq, 0, "total query tokens (varlen); 0 means b * sq")                          \
  X(SHAPE, std::int64_t, tk, 0, "total key tokens (varlen); 0 means b * sk")                            \
  X(SHAPE, std::int64_t, snew, 0, "new tokens per sequence, written into the cache K and V first")      \
  X(SHAPE, std::int64_t, tnew, 0, "total new tokens where they are packed, and snew is the longest")    \
  X(SHAPE, std::int64_t, cache, 0, "sequences of a dense KV cache; 0 means b, or packed keys (varlen)") \
  X(SHAPE, std::int64_t, pages, 0, "pages in the cache; 0 means b * ceil(sk / paged)")                  \
  X(SHAPE, std::int64_t, rope_rows, 0, "rows of the rope tables; 0 means sk")                           \
  X(SHAPE, std::int64_t, parts, 0, "partial results that merge reads")                                  \
  X(SHAPE, std::int64_t, window_left, -1, "keys visible left of the diagonal; -1 is unbounded")         \
  X(SHAPE, std::int64_t, window_right, -1, "keys visible right of the diagonal; -1 is unbounded")       \
  X(SHAPE, std::int64_t, sink_tokens, 0, "first keys that stay visible left of the window")             \
  X(SHAPE, OptionalScale, scale, std::nullopt, "factor of Q K^T; by default 1/sqrt(d)")                 \
  X(SHAPE, OptionalScale, keep_scale, std::nullopt,                                                     \
    "factor of the weights that dropout keeps; by default 1 / the true probability of being kept")      \
  X(SHAPE, FunctionNumbers, numbers, FunctionNumbers(),                                                 \
    "values of n0, f1, ... in score and keep, such as n0:64,f1:0.5")                                    \
  X(SHAPE, std::int64_t, splits, 0, "parts of the key length; 0 lets the plan choose")                  \
  X(SHAPE, Layout, layout, Layout::bshd, "memory layout of tensors where the caller gives no strides")

struct Problem {
#define REGARD_MEMBER(category, type, name, default_value, doc) type name = default_value;
  REGARD_PROBLEM_FIELDS(REGARD_MEMBER)
#undef REGARD_MEMBER
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// The part of a Problem that a kernel is compiled for. Derived, never filled by hand from a Problem's
/// fields.
struct Signature {
#define REGARD_MEMBER_SIGNATURE(type, name, default_value) type name = default_value;
#define REGARD_MEMBER_PRESENCE(type, name, default_value) bool name = false;
#define REGARD_MEMBER_SHAPE(type, name, default_value)
#define REGARD_MEMBER(category, type, name, default_value, doc) \
  REGARD_MEMBER_##category(type, name, default_value)
  REGARD_PROBLEM_FIELDS(REGARD_MEMBER)
#undef REGARD_MEMBER
#undef REGARD_MEMBER_SIGNATURE
#undef REGARD_MEMBER_PRESENCE
#undef REGARD_MEMBER_SHAPE
  friend bool operator==(const Signature&, const Signature&) = default;
};

Signature signature(const Problem&);

/// One line, e.g. "fwd bf16 b=2 hq=16 hk=4 s=1024 d=128 mask=causal": pass, dtype and sizes always (h=, s= or
/// d= where the pair is equal), then the fields that differ from their default, in list order. Canonical:
/// equal problems print equal text, and parse(print(p)) == p.
std::string print(const Problem&);
/// Only the signature's words: "fwd bf16 d=128 mask=causal softcap". A presence field prints as a bare word.
std::string print(const Signature&);

/// Parses problem text; order is free. Does not validate (see validate). An unknown word is an error that
/// names the nearest one; a word given twice with different values is an error as well.
Result<Problem> parse(std::string_view text);
/// Applies another word, e.g. "sq=4096", to a problem.
Status apply(Problem&, std::string_view word);
Result<Signature> parse_signature(std::string_view text);

std::string to_json(const Problem&);  ///< every field by name, one line
Result<Problem> problem_from_json(
    std::string_view json);  ///< strict: unknown keys and wrong types are errors

std::size_t hash(const Problem&);
std::size_t hash(const Signature&);

/// Rejects everything that is meaningless on every target: sizes, head groups, dtypes, features that exclude
/// each other. The message is one sentence with the offending words and what would work.
Status validate(const Problem&);

std::size_t bytes_of(DType);
DType default_out(DType input);
DType default_bias_type(DType input);
/// The factor of Q K^T: `scale` or 1/sqrt(d) of the unpadded head dimension. The only place that computes it.
double scale_of(const Problem&);
/// A random byte of dropout keeps a weight when it is at most this: probability (keep + 1) / 256.
int dropout_keep_of(const Problem&);
/// The factor of the weights that dropout keeps: `keep_scale` or 256 / (keep + 1).
double keep_scale_of(const Problem&);
bool has_elementwise_bias(Bias);
/// Whether every batch, or every head, has its own elementwise bias; if not, they share one.
bool has_batches(Bias);
bool has_heads(Bias);
bool has_alibi(Bias);
/// Whether `mask` hides no key from any row, however few of the sq rows and sk keys a sequence has: causal
/// with one query row, or a window that is wider than the sequences.
bool mask_hides_nothing(const Problem&);
/// Whether K and V are a cache that new tokens are written into: by append, or by fwd before it attends.
inline bool writes_cache(const Problem& p) {
  return p.snew > 0 || p.tnew > 0;
}
/// Columns of K; `k_rope` has the others.
inline std::int64_t columns_of_k(const Problem& p) {
  return p.k_rope ? p.dv : p.d;
}
/// Whether `k_rope` has the type of Q beside an 8-bit K, whose columns have factors.
inline bool has_wide_k_rope(const Problem& p) {
  return p.descale == Descale::columns;
}
/// Whether the factors of new tokens are computed and written along with them.
inline bool has_factors_of_tokens(const Problem& p) {
  return p.descale == Descale::token || p.descale == Descale::columns;
}
/// The first of the columns that rope rotates.
inline std::int64_t first_rotated(const Problem& p) {
  return p.latent ? p.dv : 0;
}
/// Rows of the rope tables.
inline std::int64_t rope_rows(const Problem& p) {
  return p.rope_rows != 0 ? p.rope_rows : p.sk;
}
/// Whether new tokens are packed, [tnew, heads, dim].
inline bool packs_new(const Problem& p) {
  return p.tnew > 0;
}
inline bool is_vectorized(const Problem& p) {
  return p.paged > 0 && p.kv_layout == KvLayout::vectorized;
}
/// Whether K and V are packed sequences, and not a cache.
inline bool packs_keys(const Problem& p) {
  return p.varlen && p.paged == 0 && p.cache == 0;
}
/// Whether sequences have lengths of their own.
inline bool has_own_lengths(const Problem& p) {
  return p.varlen || p.lengths || p.left_padding || (p.paged > 0 && p.table == PageTable::sglang);
}
/// Whether K and V are a KV cache. There a logical length can be negative, which means that the sequence has
/// no keys and takes no new ones.
inline bool is_cache(const Problem& p) {
  return p.paged > 0 || p.cache > 0 || p.left_padding || writes_cache(p);
}

/// Multiply-adds counted as two: 2 b hq sq sk (d + dv) forward, 2.5 times that backward; with a mask only the
/// visible pairs count (b hq visible_scores). Sizes are 64-bit, the result is a double.
double flops(const Problem&);
/// Visible (query, key) pairs of one head of one sequence of the dense shape, by the positional mask alone.
double visible_scores(const Problem&);
/// The number of a sequence's keys that at least one of its rows sees.
std::int64_t visible_keys(const Problem&);
/// The most of them that one row sees.
std::int64_t most_keys_of_row(const Problem&);

}  // namespace regard
