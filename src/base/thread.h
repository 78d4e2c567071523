// What the calling thread has of its own: how it does arithmetic, whether it may be cancelled, its signals,
// and values.
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

/// While it lives this thread, and those that it starts, round to nearest and no exception traps: -inf -
/// -inf, or a division by 0, is a number like any other here. Then the caller has his own mode again, and his
/// flags.
class FloatMode {
 public:
#if defined(__x86_64__)
  // The old floating-point unit has a mode too, which would take 20 times as long. strtod goes by it, so
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
// may arrive at any of the caller's instructions.
template <class Body>
[[gnu::noinline]] auto run(const Body& body) noexcept {
  return body();
}
}  // namespace no_cancellation

/// Returns what `body` returns, which must not throw. A pthread_cancel of this thread is deferred until then:
/// a cancellation unwinds the stack like an exception that must not be caught, and would end the process at
/// the first handler or destructor in its way.
template <class Body>
auto without_cancellation(const Body& body) {
  int state, type;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  // In glibc 2.36 a cancellation signal that is already on its way goes by the type, not the state.
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

/// Blocks SIGXFSZ and SIGPIPE in this thread, and takes back those that came meanwhile.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t taken_, before_;
};

/// A value of each thread, gone with it. Not a thread_local one: where there is no memory for a thread's
/// first look at the variables of a library that was loaded later, or for the list of destructors to be
/// called, the C library ends the process. The functions of a key say that they failed.
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

  /// In place of the one before. False where there was no memory for that, and then that one stays.
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
