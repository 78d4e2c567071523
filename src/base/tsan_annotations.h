// Work that one thread hands to another through a library that is not built with the thread sanitizer, which
// would take what the two do for a race. The names are the sanitizer's; without it nothing is left of them.
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define REGARD_THREAD_SANITIZER 1
#endif
#endif

#ifdef REGARD_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
/// A function that the other library calls: its own look at what it was given is not checked.
#define REGARD_HANDED_OVER __attribute__((no_sanitize("thread")))
#else
#define REGARD_HANDED_OVER
#endif

namespace regard {

/// All this thread did so far comes before what follows `take_over` of the same work in another.
inline void hand_over([[maybe_unused]] void* work) {
#ifdef REGARD_THREAD_SANITIZER
  __tsan_release(work);
#endif
}
inline void take_over([[maybe_unused]] void* work) {
#ifdef REGARD_THREAD_SANITIZER
  __tsan_acquire(work);
#endif
}

}  // namespace regard
