// Workspaces for callers that do not manage their own.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/result.h"

namespace regard {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<void, FreeMemory>;

inline Result<AlignedMemory> aligned_memory(std::int64_t bytes) {
  constexpr std::size_t alignment = 64;
  const std::size_t rounded = (static_cast<std::size_t>(bytes) + alignment) / alignment * alignment;
  AlignedMemory memory(std::aligned_alloc(alignment, rounded));
  if (!memory)
    return fail(ErrorKind::no_memory, fmt::format("could not allocate a workspace of {} bytes", bytes));
  return memory;
}

}  // namespace regard
