// A call that cannot be done, as TransformerEngine's own library tells it: an exception that its front ends
// show.
#pragma once

#include <te_regard.h>

#include <stdexcept>
#include <string>

namespace ck_fused_attn {

[[noreturn]] inline void refuse(te_regard_status status, const std::string& sentence) {
  throw std::runtime_error(std::string(te_regard_status_name(status)) + ": " + sentence);
}

/// Regard's own sentence where a call of its library has failed.
inline void require(te_regard_status status) {
  if (status != TE_REGARD_OK) refuse(status, te_regard_status_message());
}

}  // namespace ck_fused_attn
