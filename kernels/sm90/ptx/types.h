// Pointers as the instructions want them; integers come with the arguments.
#pragma once

#include "kernels/arguments.h"

namespace regard {

#define REGARD_DEVICE __device__ __forceinline__

constexpr u32 whole_warp = 0xffffffffu;

REGARD_DEVICE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

}  // namespace regard
