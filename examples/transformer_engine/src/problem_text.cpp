#include "problem_text.h"

#include <charconv>

#include "refusal.h"

namespace ck_fused_attn {
namespace {

std::string dtype_word(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return " fp16";
    case kBFloat16:
      return " bf16";
    default:
      break;
  }
  refuse(TE_REGARD_INVALID, "dtype " + std::to_string(dtype) + " is none; kFloat16 is 0 and kBFloat16 is 1");
}

std::string mask_words(const Asked& asked) {
  const std::string window = std::to_string(asked.window_left) + "," + std::to_string(asked.window_right);
  const bool unbounded = window == "-1,-1";
  switch (asked.mask_type) {
    case no_mask:
      if (unbounded) return "";
      refuse(TE_REGARD_INVALID,
             "no_mask has no diagonal for the window (" + window +
                 "); give mask_top_left or mask_bottom_right with it, or the window (-1,-1)");
    case mask_top_left:
    case mask_bottom_right: {
      const bool top_left = asked.mask_type == mask_top_left;
      if (unbounded) return "";
      if (window == "-1,0") return top_left ? " mask=causal_top_left" : " mask=causal";
      return " mask=window:" + window + (top_left ? ",top_left" : "");
    }
    case window_generic:
      refuse(TE_REGARD_REFUSED,
             "window_generic is not taken; give mask_top_left or mask_bottom_right, which take a window too");
  }
  refuse(TE_REGARD_INVALID, "mask type " + std::to_string(asked.mask_type) + " is none; they are 0 to 3");
}

}  // namespace

std::string word(const char* name, std::uint64_t value) {
  return std::string(" ") + name + "=" + std::to_string(value);
}

std::string word(const char* name, float value) {
  char digits[32];
  return std::string(" ") + name + "=" + std::string(digits, std::to_chars(digits, digits + 32, value).ptr);
}

std::string problem_text(const char* pass, const Asked& asked, const std::string& more_words) {
  std::string text = pass + dtype_word(asked.dtype) + word("b", asked.b) + word("hq", asked.h) +
                     word("hk", asked.hg) + word("sq", asked.s_q) + word("sk", asked.s_kv) +
                     word("d", asked.d_qk) + word("dv", asked.d_v) + word("scale", asked.scale) +
                     mask_words(asked);
  if (asked.dropout != 0) text += word("dropout", asked.dropout);
  return text + more_words;
}

std::string bias_words(const Asked& asked, BiasType type, std::uint64_t bias_b, std::uint64_t bias_h) {
  switch (type) {
    case no_bias:
      return "";
    case alibi:
      return " bias=alibi";
    case elementwise_bias:
      break;
    default:
      refuse(TE_REGARD_INVALID, "bias type " + std::to_string(type) + " is none; they are 0 to 2");
  }
  if ((bias_b != 1 && bias_b != asked.b) || (bias_h != 1 && bias_h != asked.h)) {
    refuse(TE_REGARD_INVALID, "a bias of [" + std::to_string(bias_b) + ", " + std::to_string(bias_h) +
                                  ", s_q, s_kv] does not go with b=" + std::to_string(asked.b) +
                                  " h=" + std::to_string(asked.h) + "; each of the two is 1 or as large");
  }
  return std::string(" bias=") + (bias_b == 1 ? "1" : "b") + (bias_h == 1 ? "1" : "h");
}

}  // namespace ck_fused_attn
