// The floating-point mode for products of weights: subnormal results become 0 (docs/semantics.md).
#pragma once

#include "kernels/numbers.h"

namespace regard {

/// Active in this thread during the object's lifetime. Weights of keys far below the largest score of their
/// row are below 2^-126, and an Intel core takes some hundred cycles for a product with such a number
/// (docs/cpu-kernels.md).
class FlushToZero {
#if defined(__x86_64__)
 public:
  FlushToZero() {
    asm volatile("stmxcsr %0" : "=m"(before_));
    set(before_ | 1u << 15);
  }
  ~FlushToZero() { set(before_); }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  static void set(u32 control) { asm volatile("ldmxcsr %0" : : "m"(control) : "memory"); }

  u32 before_;
#else
 public:
  FlushToZero() {}
#endif
};

}  // namespace regard
