// How many compiles run at a time in this process: bounded by cores and by memory.
#pragma once

#include <cstdint>

namespace regard {

/// `asked` (the setting; 0 = none) or what cores and memory allow, at least 1.
int compile_jobs(std::int64_t asked, int cores, std::int64_t memory_bytes);

/// Holds one of the process's compile slots; waits for it.
class CompileSlot {
 public:
  CompileSlot();
  ~CompileSlot();
  CompileSlot(const CompileSlot&) = delete;
  CompileSlot& operator=(const CompileSlot&) = delete;
};

}  // namespace regard
