// Translates TransformerEngine's enumerations and numbers into words of Regard's problem text.
#pragma once

#include <string>

#include "ck_fused_attn/ck_fused_attn.hpp"

namespace ck_fused_attn {

/// "fwd bf16 b=2 ..." with these words at its end.
std::string problem_text(const char* pass, const CKAttnCommonArgs& args, float dropout,
                         const std::string& more_words);

/// " bias=1h", or nothing.
std::string bias_words(const CKAttnCommonArgs& args);

}  // namespace ck_fused_attn
