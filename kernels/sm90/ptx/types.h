// Integers and pointers as the instructions want them.
#pragma once

namespace regard {

using i64 = long long;
using i32 = int;
using u64 = unsigned long long;
using u32 = unsigned int;

#define REGARD_DEVICE __device__ __forceinline__

REGARD_DEVICE u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

}  // namespace regard
