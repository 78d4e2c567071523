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

std::string mask_words(const CKAttnCommonArgs& args) {
  const std::string window =
      std::to_string(args.window_size_left) + "," + std::to_string(args.window_size_right);
  const bool unbounded = window == "-1,-1";
  const std::string sink_tokens = args.sink_size > 0 ? ",sink=" + std::to_string(args.sink_size) : "";
  switch (args.attn_mask_type) {
    case no_mask:
      if (unbounded) return "";
      refuse(TE_REGARD_INVALID,
             "no_mask has no diagonal for the window (" + window +
                 "); give mask_top_left or mask_bottom_right with it, or the window (-1,-1)");
    case mask_top_left:
    case mask_bottom_right: {
      const bool top_left = args.attn_mask_type == mask_top_left;
      if (unbounded) return "";
      if (window == "-1,0") return top_left ? " mask=causal_top_left" : " mask=causal";
      return " mask=window:" + window + (top_left ? ",top_left" : "") + sink_tokens;
    }
    case window_generic:
      refuse(TE_REGARD_REFUSED,
             "window_generic is not taken; give mask_top_left or mask_bottom_right, which take a window too");
  }
  refuse(TE_REGARD_INVALID, "mask type " + std::to_string(args.attn_mask_type) + " is none; they are 0 to 3");
}

}  // namespace

std::string word(const char* name, std::uint64_t value) {
  return std::string(" ") + name + "=" + std::to_string(value);
}

std::string word(const char* name, float value) {
  char digits[32];
  return std::string(" ") + name + "=" + std::string(digits, std::to_chars(digits, digits + 32, value).ptr);
}

std::string problem_text(const char* pass, const CKAttnCommonArgs& args, float dropout,
                         const std::string& more_words) {
  std::string text = pass + dtype_word(args.dtype) + word("b", args.b) + word("hq", args.h) +
                     word("hk", args.hg) + word("sq", args.s_q) + word("sk", args.s_kv) +
                     word("d", args.d_qk) + word("dv", args.d_v) + word("scale", args.scaling_factor) +
                     mask_words(args);
  if (dropout != 0) text += word("dropout", dropout);
  return text + more_words;
}

std::string bias_words(const CKAttnCommonArgs& args) {
  const std::uint64_t bias_b = args.bias_b, bias_h = args.bias_h;
  if (args.attn_bias_type != no_bias && args.is_group_mode())
    refuse(TE_REGARD_REFUSED, "packed sequences take no bias; give no_bias, or dense sequences");
  switch (args.attn_bias_type) {
    case no_bias:
      return "";
    case alibi:
      return " bias=alibi";
    case elementwise_bias:
      break;
    default:
      refuse(TE_REGARD_INVALID,
             "bias type " + std::to_string(args.attn_bias_type) + " is none; they are 0 to 2");
  }
  if ((bias_b != 1 && bias_b != args.b) || (bias_h != 1 && bias_h != args.h)) {
    refuse(TE_REGARD_INVALID, "a bias of [" + std::to_string(bias_b) + ", " + std::to_string(bias_h) +
                                  ", s_q, s_kv] does not go with b=" + std::to_string(args.b) +
                                  " h=" + std::to_string(args.h) + "; each of the two is 1 or as large");
  }
  return std::string(" bias=") + (bias_b == 1 ? "1" : "b") + (bias_h == 1 ? "1" : "h");
}

std::string sink_words(const CKAttnCommonArgs& args) {
  if (args.sink_ptr != nullptr) return " sink";
  if (!args.has_sink) return "";
  refuse(
      TE_REGARD_INVALID,
      "has_sink is set and sink_ptr is null; give the h logits, which are zeros for an off-by-one softmax");
}

}  // namespace ck_fused_attn
