// What TransformerEngine's enumerations and numbers are in words of Regard's problem text.
#pragma once

#include <string>

#include "ck_fused_attn/ck_fused_attn.hpp"

namespace ck_fused_attn {

/// What all four functions are told.
struct Asked {
  DType dtype;
  std::uint64_t b, h, hg, s_q, s_kv, d_qk, d_v;
  float scale, dropout;
  MaskType mask_type;
  std::int64_t window_left, window_right;
};

/// "fwd bf16 b=2 ..." with these words at its end.
std::string problem_text(const char* pass, const Asked& asked, const std::string& more_words);

/// " bias=1h", or nothing.
std::string bias_words(const Asked& asked, BiasType type, std::uint64_t bias_b, std::uint64_t bias_h);

/// " name=value", whatever the locale says of decimal points.
std::string word(const char* name, std::uint64_t value);
std::string word(const char* name, float value);

}  // namespace ck_fused_attn
