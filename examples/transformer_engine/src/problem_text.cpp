#include "problem_text.h"

#include "refusal.h"
#include "words.h"

namespace ck_fused_attn {
namespace {

using calls::refuse;
using calls::word;

std::string word_of(const char* name, std::uint64_t value) {
  return word(name, static_cast<std::int64_t>(value));
}

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

}  // namespace

std::string problem_text(const char* pass, const CKAttnCommonArgs& args, float dropout,
                         const std::string& more_words) {
  std::string text = pass + dtype_word(args.dtype) + word_of("b", args.b) + word_of("hq", args.h) +
                     word_of("hk", args.hg) + word_of("sq", args.s_q) + word_of("sk", args.s_kv) +
                     word_of("d", args.d_qk) + word_of("dv", args.d_v) + word("scale", args.scaling_factor) +
                     calls::mask_words(args.attn_mask_type, args.window_size_left, args.window_size_right);
  if (dropout != 0) text += word("dropout", dropout);
  return text + more_words;
}

std::string bias_words(const CKAttnCommonArgs& args) {
  switch (args.attn_bias_type) {
    case no_bias:
      return "";
    case alibi:
      calls::require_alibi(args.attn_mask_type, args.s_q == args.s_kv);
      return " bias=alibi";
    case elementwise_bias:
      break;
    default:
      refuse(TE_REGARD_INVALID,
             "bias type " + std::to_string(args.attn_bias_type) + " is none; they are 0 to 2");
  }
  if ((args.bias_b != 1 && args.bias_b != args.b) || (args.bias_h != 1 && args.bias_h != args.h)) {
    refuse(TE_REGARD_INVALID, "a bias of [" + std::to_string(args.bias_b) + ", " +
                                  std::to_string(args.bias_h) +
                                  ", s_q, s_kv] does not go with b=" + std::to_string(args.b) +
                                  " h=" + std::to_string(args.h) + "; each of the two is 1 or as large");
  }
  return std::string(" bias=") + (args.bias_b == 1 ? "1" : "b") + (args.bias_h == 1 ? "1" : "h");
}

}  // namespace ck_fused_attn
