// Marks functions that all kernels share, and the host if it computes the same.
#pragma once

#ifdef __CUDACC__
#define REGARD_INLINE __host__ __device__ __forceinline__
#elif defined(__HIP__)
#define REGARD_INLINE __attribute__((host, device, always_inline)) inline
#else
#define REGARD_INLINE inline __attribute__((always_inline))
#endif
