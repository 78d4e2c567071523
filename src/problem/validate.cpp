// What is meaningless on every target. Each rule is a small function that accepts or says why not and what
// would work; the list at the end is evaluated from top to bottom.
#include <cmath>

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
      {"cache", p.cache, 0},
      {"pages", p.pages, 0},
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

Status output_dtype(const Problem& p) {
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
  if (p.descale != Descale::none && (!eight_bits || p.pass != Pass::fwd)) {
    return invalid(pair("descale", p.descale) +
                   " needs fwd with 8-bit inputs; leave descale out or change the dtype");
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
  if (p.lse) return invalid("lse does not go with " + pass + "; only fwd writes LSE (bwd always reads it)");
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
    return {};
  }
  if (p.tq != 0) return invalid(pair("tq", p.tq) + " needs varlen; dense problems have b * sq query tokens");
  if (p.tk != 0) return invalid(pair("tk", p.tk) + " needs varlen; dense problems have b * sk key tokens");
  return {};
}

/// Offsets, lengths, ranges and page numbers are int32.
Status thirty_two_bit_positions(const Problem& p) {
  if (p.paged > 0) {
    const std::int64_t pages = tensor_spec(p, REGARD_K).shape[0];
    if (pages > INT32_MAX) {
      return invalid(
          std::to_string(pages) +
          " pages are too many for an int32 page table, whose numbers end at 2147483647; use larger "
          "pages");
    }
  }
  if (!p.varlen && !p.lengths && !p.ranges) return {};
  const std::string_view reason = p.varlen ? "varlen" : p.lengths ? "lengths" : "ranges";
  for (const regard_role role : {REGARD_Q, REGARD_K}) {
    const Dimensions shape = tensor_spec(p, role).shape;
    const bool varlen = p.varlen && (role == REGARD_Q || p.paged == 0);
    const std::int64_t rows = varlen ? shape[0] : role == REGARD_Q ? p.sq : p.sk;
    if (rows > INT32_MAX) {
      return invalid(std::to_string(rows) + (role == REGARD_Q ? " query" : " key") +
                     std::string(" rows are too many for ") + std::string(reason) +
                     ", whose int32 positions end at 2147483647");
    }
  }
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
  if ((p.paged & (p.paged - 1)) != 0) {
    return invalid(pair("paged", p.paged) + " is not a power of two; use for example paged=16");
  }
  if (p.pass == Pass::bwd)
    return invalid(pair("paged", p.paged) + " does not go with bwd; a KV cache is for fwd and append");
  if (p.kv_layout == KvLayout::vectorized) {
    const std::int64_t x = 16 / static_cast<std::int64_t>(bytes_of(p.dtype));
    for (const auto& [name, value] :
         {std::pair("paged", p.paged), std::pair("d", p.d), std::pair("dv", p.dv)}) {
      if (value % x == 0) continue;
      return invalid(pair(name, value) + " is not a multiple of " + std::to_string(x) +
                     ", as kv_layout=vectorized needs with " + std::string(word(p.dtype)) +
                     "; use kv_layout=linear");
    }
  }
  return {};
}

Status rotary_embedding(const Problem& p) {
  if (p.rope == Rope::none) {
    if (p.rotary != 0) return invalid(pair("rotary", p.rotary) + " needs rope=interleaved or rope=half");
    return {};
  }
  if (!writes_cache(p) && p.pass != Pass::append) {
    return invalid(pair("rope", p.rope) +
                   " needs append, or fwd with new tokens such as snew=1; otherwise inputs come rotated");
  }
  if (bytes_of(p.dtype) == 1)
    return invalid(pair("rope", p.rope) + " does not go with " + std::string(word(p.dtype)) +
                   "; append bf16, fp16 or fp32");
  if (p.rotary == 0 || p.rotary % 16 != 0 || p.rotary > p.d) {
    return invalid(pair("rotary", p.rotary) + " is not a multiple of 16 between 16 and " + pair("d", p.d));
  }
  return {};
}

/// New tokens, written by append or by fwd before it attends.
Status new_tokens(const Problem& p) {
  if (p.snew == 0 && p.pass != Pass::append) {
    if (p.cache == 0) return {};
    return invalid(
        pair("cache", p.cache) +
        " needs append, or fwd with new tokens such as snew=1; otherwise give the b sequences of K "
        "and V themselves");
  }
  if (p.pass == Pass::bwd) return invalid(pair("snew", p.snew) + " needs append or fwd; bwd writes no cache");
  if (p.snew < 1 || p.snew > p.sk) {
    return invalid(pair("snew", p.snew) + " new tokens do not fit; append writes 1 to " + pair("sk", p.sk) +
                   " tokens per sequence");
  }
  if (p.varlen) {
    return invalid("varlen does not go with " + pair("snew", p.snew) +
                   ", as append takes [b, snew, heads, dim]; leave varlen out");
  }
  if (p.paged > 0 && p.cache != 0) {
    return invalid(pair("cache", p.cache) + " does not go with " + pair("paged", p.paged) +
                   ", whose page table says where sequences lie; leave cache out");
  }
  if (p.paged > 0 && p.table == PageTable::sglang) {
    return invalid(pair("table", p.table) + " does not go with " + pair("snew", p.snew) +
                   ", as its list ends with the last full page; use table=vllm");
  }
  return {};
}

/// append computes no attention; fwd with new tokens does.
Status append_alone(const Problem& p) {
  if (p.pass != Pass::append) return {};
  struct Excluded {
    bool used;
    std::string_view word;
  };
  const Excluded excluded[] = {
      {p.ranges, "ranges"},           {p.bits, "bits"},
      {p.bias != Bias::none, "bias"}, {p.sink, "sink"},
      {p.softcap > 0, "softcap"},     {p.dropout > 0, "dropout"},
      {p.scale.has_value(), "scale"},
  };
  for (const Excluded& feature : excluded) {
    if (!feature.used) continue;
    return invalid(
        std::string(feature.word) +
        " does not go with append, which computes no attention; leave it out, or use fwd with snew=" +
        value_text(p.snew));
  }
  return {};
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
      return invalid("tensor '" + std::string(spec.name) +
                     "' of this problem has more than 2^63 bytes; use smaller sizes");
    }
  }
  return {};
}

using Rule = Status (*)(const Problem&);
constexpr Rule rules[] = {
    sizes,
    head_groups,
    head_dims,
    output_dtype,
    eight_bit_inputs,
    positional_mask,
    score_modifiers,
    bias_type,
    bias_gradient,
    dropout,
    forward_only,
    splits,
    varlen_sequences,
    paged_cache,
    rotary_embedding,
    new_tokens,
    append_alone,
    tensor_sizes,
    thirty_two_bit_positions,
};

}  // namespace

Status validate(const Problem& problem) {
  for (const Rule rule : rules) {
    if (Status status = rule(problem); !status) return status;
  }
  return {};
}

}  // namespace regard
