// The exception for a call that cannot be computed: the status and a sentence with the reason.
#pragma once

#include <te_regard.h>

#include <stdexcept>
#include <string>

namespace calls {

[[noreturn]] inline void refuse(te_regard_status status, const std::string& sentence) {
  throw std::runtime_error(std::string(te_regard_status_name(status)) + ": " + sentence);
}

/// Throws Regard's own sentence if a call of its library has failed.
inline void require(te_regard_status status) {
  if (status != TE_REGARD_OK) refuse(status, te_regard_status_message());
}

}  // namespace calls
