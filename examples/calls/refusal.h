// A call that cannot be done, as an exception with the status and the sentence of what was wrong.
#pragma once

#include <te_regard.h>

#include <stdexcept>
#include <string>

namespace calls {

[[noreturn]] inline void refuse(te_regard_status status, const std::string& sentence) {
  throw std::runtime_error(std::string(te_regard_status_name(status)) + ": " + sentence);
}

/// Regard's own sentence where a call of its library has failed.
inline void require(te_regard_status status) {
  if (status != TE_REGARD_OK) refuse(status, te_regard_status_message());
}

}  // namespace calls
