// Replacements for the C library's functions, which they call; `new` calls malloc.
#include "support/failing_memory.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>

#include "support/sanitized.h"

namespace regard::test {
namespace {
std::atomic<long> until_failure{LONG_MAX}, in_use{0};
std::atomic<bool> all_fail{false}, has_failed{false};
}  // namespace

void fail_allocation(long n, bool all_following) {
  has_failed = false;
  all_fail = all_following;
  until_failure = n;
}

bool end_failing() {
  until_failure = LONG_MAX;
  return has_failed;
}

long pieces_in_use() {
  return in_use;
}

#ifdef REGARD_SANITIZED
const bool memory_can_fail = false;
#else
const bool memory_can_fail = true;

namespace {

bool fails() {
  if (until_failure.load(std::memory_order_relaxed) == LONG_MAX) return false;
  const long left = until_failure.fetch_sub(1, std::memory_order_relaxed);
  if (left > 1 || (left < 1 && !all_fail)) return false;
  has_failed = true;
  errno = ENOMEM;
  return true;
}

void* counted(void* memory) {
  if (memory != nullptr) in_use.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace
#endif

}  // namespace regard::test

#ifndef REGARD_SANITIZED
using regard::test::counted;
using regard::test::fails;

extern "C" {

// glibc's functions, under the names that it provides for this purpose.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t bytes) {
  return fails() ? nullptr : counted(__libc_malloc(bytes));
}
void* calloc(std::size_t count, std::size_t bytes) {
  return fails() ? nullptr : counted(__libc_calloc(count, bytes));
}
void* realloc(void* memory, std::size_t bytes) {
  if (fails()) return nullptr;
  void* const moved = __libc_realloc(memory, bytes);
  if (memory == nullptr) counted(moved);
  return moved;
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : counted(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  if (fails()) return ENOMEM;
  *memory = counted(__libc_memalign(alignment, bytes));
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  if (memory != nullptr) regard::test::in_use.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(memory);
}
}
#endif
