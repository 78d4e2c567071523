// Annotations for the thread sanitizer: work that one thread hands to another through a library that is not
// built with the sanitizer, which would report a race. Without the sanitizer they expand to nothing.
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REGARD_THREAD_SANITIZER 1
#endif
#endif

#ifdef REGARD_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
/// A function that the other library calls: its own accesses to its arguments are not checked.
#define REGARD_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define REGARD_NO_TSAN
#endif

namespace regard {

/// Everything that this thread did so far happens before what follows `tsan_acquire` of the same work in
/// another.
inline void tsan_release([[maybe_unused]] void* work) {
#ifdef REGARD_THREAD_SANITIZER
  __tsan_release(work);
#endif
}
inline void tsan_acquire([[maybe_unused]] void* work) {
#ifdef REGARD_THREAD_SANITIZER
  __tsan_acquire(work);
#endif
}

}  // namespace regard
