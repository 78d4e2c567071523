// How the processor does arithmetic on floating-point numbers, for the time that this library is called.
#pragma once

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

}  // namespace regard
