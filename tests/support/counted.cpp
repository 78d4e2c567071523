// Replacements for the C library's functions, which they call.
#include "support/counted.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>
#include <cstddef>

#include "support/sanitized.h"

namespace regard::test {
namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};
thread_local int locks = 0;

}  // namespace

void begin_counting() {
  allocations = locks = 0;
  counting = true;
}

Counted end_counting() {
  counting = false;
  return {allocations, locks};
}

#ifdef REGARD_SANITIZED
const bool counts = false;
#else
const bool counts = true;

namespace {

void count_allocation() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}

/// Looked up at the first lock of a kind, which comes before the repeated calls that are counted: the lookup
/// itself may allocate.
template <class Lock>
using Function = int (*)(Lock*);
template <class Lock>
Function<Lock> next(const char* name) {
  return reinterpret_cast<Function<Lock> >(dlsym(RTLD_NEXT, name));
}

template <class Lock>
int lock(Function<Lock>& function, const char* name, Lock* it) {
  if (function == nullptr) function = next<Lock>(name);
  if (counting.load(std::memory_order_relaxed)) ++locks;
  return function(it);
}

Function<pthread_mutex_t> mutex_lock;
Function<pthread_rwlock_t> read_lock, write_lock;

}  // namespace
#endif

}  // namespace regard::test

#ifndef REGARD_SANITIZED
using regard::test::count_allocation;

extern "C" {

// glibc's functions, under the names that it provides for this purpose.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count_allocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  return regard::test::lock(regard::test::mutex_lock, "pthread_mutex_lock", mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* it) {
  return regard::test::lock(regard::test::read_lock, "pthread_rwlock_rdlock", it);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* it) {
  return regard::test::lock(regard::test::write_lock, "pthread_rwlock_wrlock", it);
}
}
#endif
