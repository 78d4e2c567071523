// What a compiled GPU kernel takes of the machine, as ptxas reports it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace regard {

// X(name, documentation)
#define REGARD_RESOURCES(X)                                          \
  X(registers, "32-bit registers per thread")                        \
  X(stack_bytes, "local memory of a thread's stack frame")           \
  X(spill_store_bytes, "bytes of registers written to local memory") \
  X(spill_load_bytes, "bytes of registers read back from there")     \
  X(shared_bytes, "static shared memory per block")                  \
  X(barriers, "named barriers per block")

struct Resources {
#define REGARD_MEMBER(name, doc) std::int64_t name = 0;
  REGARD_RESOURCES(REGARD_MEMBER)
#undef REGARD_MEMBER
  /// What ptxas says about speed that it gave away: wgmma instructions in series (C7510 to C7519).
  std::vector<std::string> performance_warnings;

  bool spills() const { return spill_store_bytes > 0 || spill_load_bytes > 0; }
  friend bool operator==(const Resources&, const Resources&) = default;
};

/// Reads the log of `ptxas --verbose`. An error when the log reports on no kernel, or on more than one.
Result<Resources> parse_ptxas_log(std::string_view log);

}  // namespace regard
