// Failures of a foreign call, up to where they are passed to XLA as an error.
#pragma once

#include <exception>
#include <string>

#include "regard/regard.h"

namespace regard::python::xla {

class Failure : public std::exception {
 public:
  Failure(regard_status status, std::string sentence) : status_(status), sentence_(std::move(sentence)) {}
  regard_status status() const { return status_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  regard_status status_;
  std::string sentence_;
};

/// The message of a failed call of the C ABI.
inline void check(regard_status status) {
  if (status != REGARD_OK) throw Failure(status, regard_status_message());
}

}  // namespace regard::python::xla
