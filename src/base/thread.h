// State of the calling thread: how it does arithmetic, whether it can be cancelled, its signals, and values.
#pragma once

#include <pthread.h>

#include <csignal>
#include <memory>
#include <type_traits>

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace regard {

/// While it exists, this thread, and threads that it starts, round to nearest and no exception traps: -inf -
/// -inf, or a division by 0, is an ordinary number here. Afterwards the caller has its own mode and flags
/// again.
class FloatMode {
 public:
#if defined(__x86_64__)
  // The x87 unit has a mode as well, but setting it would take 20 times as long. strtod depends on it, so
  // numbers are read by std::from_chars.
  FloatMode() : before_(_mm_getcsr()) { _mm_setcsr(default_mode); }
  ~FloatMode() { _mm_setcsr(before_); }
#else
  FloatMode() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatMode() { std::fesetenv(&before_); }
#endif
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned default_mode = 0x1f80;  // all exceptions masked
  unsigned before_;
#else
  std::fenv_t before_;
#endif
};

namespace no_cancellation {
// A separate function, so that its caller's frame has nothing to clean up and an asynchronous cancellation
// can arrive at any of the caller's instructions.
template <class Body>
[[gnu::noinline]] auto run(const Body& body) noexcept {
  return body();
}
}  // namespace no_cancellation

/// Returns the result of `body`, which must not throw. A pthread_cancel of this thread is deferred until
/// then: a cancellation unwinds the stack like an exception that must not be caught, and would end the
/// process at the first handler or destructor on its way.
template <class Body>
auto without_cancellation(const Body& body) {
  int state, type;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  // In glibc 2.36 a cancellation signal that is already on its way checks the type, not the state.
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  const auto restore = [&] {
    pthread_setcanceltype(type, nullptr);
    pthread_setcancelstate(state, nullptr);
  };
  if constexpr (std::is_void_v<std::invoke_result_t<const Body&>>) {
    no_cancellation::run(body);
    restore();
  } else {
    const auto result = no_cancellation::run(body);
    restore();
    return result;
  }
}

/// Blocks SIGXFSZ and SIGPIPE in this thread, and discards those that arrived meanwhile.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t taken_, before_;
};

/// A value for each thread, destroyed with it. Not thread_local: where there is no memory for a thread's
/// first access to the variables of a library that was loaded later, or for the list of destructors to call,
/// the C library ends the process. The pthread_key functions report failure instead.
///
/// At namespace scope: made while the library is loaded, when few keys are taken, as the first ones need no
/// memory.
template <class T>
class ThreadSlot {
 public:
  ThreadSlot() : made_(pthread_key_create(&key_, [](void* value) { delete static_cast<T*>(value); }) == 0) {}
  ThreadSlot(const ThreadSlot&) = delete;
  ThreadSlot& operator=(const ThreadSlot&) = delete;

  /// The calling thread's, or null.
  T* get() const { return made_ ? static_cast<T*>(pthread_getspecific(key_)) : nullptr; }

  /// Replaces the previous one. False where there was no memory for that; the previous one is then kept.
  bool set(std::unique_ptr<T> fresh) const {
    T* const before = get();
    if (!made_ || pthread_setspecific(key_, fresh.get()) != 0) return false;
    (void)fresh.release();
    delete before;
    return true;
  }

 private:
  pthread_key_t key_{};
  bool made_;
};

}  // namespace regard
