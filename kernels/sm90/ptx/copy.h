// 16-byte copies from global to shared memory by single threads.
#pragma once

#include "kernels/inline.h"
#include "kernels/numbers.h"

namespace regard {

/// Both addresses are multiples of 16. Of these, `bytes` are read; the rest become zeros.
REGARD_DEVICE void copy_16_bytes(u32 to, const void* from, i32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

}  // namespace regard
