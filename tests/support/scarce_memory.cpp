// Replacements for the C++ library's operators, which programs may replace.
#include "support/scarce_memory.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "support/sanitized.h"

namespace regard::test {
namespace {
std::atomic<std::size_t> refused_bytes{SIZE_MAX};
}

ScarceMemory::ScarceMemory(std::size_t bytes) {
  refused_bytes = bytes;
}
ScarceMemory::~ScarceMemory() {
  refused_bytes = SIZE_MAX;
}

#ifdef REGARD_SANITIZED
const bool can_be_scarce = false;
#else
const bool can_be_scarce = true;
#endif

}  // namespace regard::test

#ifndef REGARD_SANITIZED

void* operator new(std::size_t bytes) {
  void* const memory = bytes < regard::test::refused_bytes ? std::malloc(bytes != 0 ? bytes : 1) : nullptr;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif
