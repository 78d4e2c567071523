// The interface between a translated HIP kernel and the emulator that runs it. A kernel is a separate shared
// object built by the host's compiler; it reaches the emulator through the one pointer that it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/position.h"

namespace emulator::hip {

struct Named;

/// A builtin, by its name without "__builtin_amdgcn_". The emulator looks it up on first use.
struct Builtin {
  const char* name;
  const Named* found = nullptr;
};

/// What a lane gives to a matrix instruction, and where it gets its sums.
struct Product {
  const void *left, *right;
  const float* addend;
  float* sums;
};

/// What a lane gives to an instruction that moves words between lanes, and what it gets.
struct Exchange {
  std::uint32_t value, other = 0, low = 0, high = 0;
  std::uint32_t result[2] = {};
};

/// A lane's part of a transposed read: the address of its 8 bytes, and the column that it gets.
struct TransposedRead {
  std::uint32_t address;
  std::uint16_t result[4] = {};
};

class Runtime {
 public:
  /// For all lanes of the wave: the last one to arrive performs it with what each lane gave.
  virtual void together(Builtin&, void* mine) = 0;
  /// Throws if the chip has not got it.
  virtual void require(Builtin&) = 0;
  /// Where `bytes` of LDS are that the kernel reads or writes.
  virtual void* lds(std::uint32_t address, std::uint32_t bytes, std::uint32_t alignment, bool write) = 0;
  virtual std::uint32_t lds_address(const void*) = 0;
  /// LDS of the block: that of a variable, and the amount requested by the launch.
  virtual void* static_memory(int number) = 0;
  virtual void* dynamic_memory() = 0;
  /// Copies `bytes` of each lane to LDS, one lane after the other from `base` on, which all lanes agree on.
  virtual void copy_to_lds(Builtin&, const void* from, std::uint32_t base, std::uint32_t bytes) = 0;
  /// `immediate`: of s_waitcnt.
  virtual void wait_count(unsigned immediate) = 0;
  /// `memory`: what it orders, "local" for LDS alone.
  virtual void fence(int order, std::string_view scope, std::string_view memory) = 0;
  /// Before an atomic operation.
  virtual void atomic(int order, int scope) = 0;
  virtual void barrier() = 0;
  /// Lets other lanes run.
  virtual void pause() = 0;

  Position position{};  ///< of the running lane
  unsigned wave = 0;    ///< lanes of a wave

 protected:
  ~Runtime() = default;
};

/// The maximum number of static LDS variables in a kernel, and the maximum bytes of one.
constexpr int static_variables = 4;
constexpr std::size_t static_bytes = 4096;

}  // namespace emulator::hip
