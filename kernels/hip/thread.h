// A thread's position in its block and in its wave, and what threads do together.
#pragma once

#include "kernels/hip/wave.h"
#include "kernels/numbers.h"

namespace regard {

REGARD_DEVICE i32 thread() {
  return static_cast<i32>(__builtin_amdgcn_workitem_id_x());
}
REGARD_DEVICE i32 lane() {
  return thread() % wave;
}
REGARD_DEVICE u32 block_index() {
  return __builtin_amdgcn_workgroup_id_x();
}
REGARD_DEVICE u32 block_count() {
  return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
}

REGARD_DEVICE bool any_in_wave(bool x) {
  if constexpr (wave == 64)
    return __builtin_amdgcn_ballot_w64(x) != 0;
  else
    return __builtin_amdgcn_ballot_w32(x) != 0;
}

/// Waits until all threads of the block have arrived; what each of them wrote to shared memory before is then
/// visible to the others. Loads from global memory may still be on their way, and RDNA's L0 cache is kept.
REGARD_DEVICE void sync_block() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
/// Likewise for what they wrote to global memory, also to other blocks if one of the threads tells them so:
/// at the scope of the block alone, a wave of CDNA does not wait for its additions to memory.
REGARD_DEVICE void sync_block_and_global() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/// By all threads of the block.
REGARD_DEVICE bool any_in_block(bool x) {
  constexpr i32 waves = config::warps;
  REGARD_SHARED static u32 votes[waves];
  const bool of_wave = any_in_wave(x);
  if constexpr (waves == 1) return of_wave;
  votes[thread() / wave] = of_wave ? 1 : 0;
  sync_block();
  u32 any = 0;
#pragma unroll
  for (i32 i = 0; i < waves; ++i) any |= votes[i];
  sync_block();
  return any != 0;
}

/// Waits until all lanes have arrived; what each of them wrote before is then visible to the others.
REGARD_DEVICE void sync_wave() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

/// How many steps of an unrolled product are read ahead: the compiler would read the operands of all of them
/// first, for which there are too few registers.
constexpr i32 steps_read_ahead = 2;
/// No read of shared memory that follows moves before this.
REGARD_DEVICE void end_reading_ahead() {
  constexpr i32 all_but_reads_of_lds = 0x67f;  // may move across it
  __builtin_amdgcn_sched_barrier(all_but_reads_of_lds);
}

/// The `x` of another lane of the wave.
REGARD_DEVICE u32 from_lane(u32 x, i32 lane) {
  return static_cast<u32>(__builtin_amdgcn_ds_bpermute(4 * lane, static_cast<i32>(x)));
}
REGARD_DEVICE float from_lane(float x, i32 lane) {
  return bits_as<float>(from_lane(bits_as<u32>(x), lane));
}
/// That of the lane `edge` further, or nearer.
REGARD_DEVICE u32 from_other_part(u32 x) {
  if constexpr (wave == 32)
    return __builtin_amdgcn_permlanex16(x, x, 0x76543210u, 0xfedcba98u, false, false);
  else
    return from_lane(x, lane() ^ edge);
}

/// In shared memory.
REGARD_DEVICE void atomic_max(i32* to, i32 x) {
  __hip_atomic_fetch_max(to, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}
REGARD_DEVICE void atomic_min(i32* to, i32 x) {
  __hip_atomic_fetch_min(to, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

}  // namespace regard
