// NVIDIA GPUs as devices: what is here, kernels loaded once per device, launches on the caller's stream.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/cuda_driver.h"

namespace regard::cuda {

struct Device {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::int64_t shared_memory = 0;  ///< bytes that one block can ask for
};

constexpr int most_devices = 64;

/// All devices, found once; the error says why there is none.
const Result<std::vector<Device>>& devices();

/// The device of the calling thread's current context; the first one where there is none.
Result<const Device*> current_device();

/// The device on which memory lies. `name` is for the message: "q", "the workspace".
Result<const Device*> device_of(const void* memory, const char* name);
/// Whether this thread has lately found memory at that address on the device, which saves asking the driver.
/// Memory that was freed since may have come back on another device: ask `device_of` for one tensor of a
/// call, at least.
bool seen_on(const Device&, const void* memory);
/// Of all threads, as memory is released.
void forget_sightings();

/// Makes a device's primary context current as long as this object lives.
class Use {
 public:
  explicit Use(const Device&);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  const Status& status() const { return status_; }

 private:
  bool pushed_ = false;
  Status status_;
};

/// A compiled kernel. Its code is loaded into a device when it is first wanted there, and stays.
class Kernel {
 public:
  Kernel(std::vector<std::byte> binary, std::string symbol);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// Loads it where it is not yet. The device must be in use.
  Result<Function> load(const Device&) const;
  /// The same for a launch: while `stream` records a graph nothing may be loaded, and the error names
  /// regard_plan_prepare.
  Result<Function> function(const Device&, Stream) const;

 private:
  std::vector<std::byte> binary_;
  std::string symbol_;
  mutable std::mutex mutex_;
  mutable std::array<std::atomic<Function>, most_devices> functions_{};
};

/// Nothing when these bytes are machine code for some GPU.
Status check_binary(std::span<const std::byte> binary, const std::string& symbol);

struct Launch {
  std::int64_t blocks = 0;
  int threads = 0;  ///< per block
  std::int64_t shared_bytes = 0;
  int cluster = 1;        ///< blocks per cluster
  bool overlaps = false;  ///< may begin while the launch before it ends, and waits for that in its code
};

/// Puts a launch into the stream; the device must be in use. No blocks: nothing to do.
Status launch(Function, const Launch&, Stream, std::span<void* const> parameters);

/// Memory for the counters below; without any left, there are none. Not while a stream is captured; the
/// device must be in use.
void reserve_counters(const Device&);
/// A 32-bit counter that is 0 when the next launch in this stream begins, for kernels that leave it at 0.
/// None (0) while the stream records a graph, which may be launched in another one, beside the stream's own
/// work; nor for streams beyond the first thousand or so. The device must be in use.
Address counter_at_zero(const Device&, Stream);

/// A tensor of up to 5 dimensions, the first one contiguous, as boxes of it are copied: swizzled by 128
/// bytes, zeros beyond its sizes. Strides in bytes, of the second dimension on.
struct BoxedTensor {
  void* data = nullptr;
  TensorMapType type = map_bf16;
  std::uint32_t rank = 0;
  std::array<std::uint64_t, 5> sizes{};
  std::array<std::uint64_t, 4> strides{};
  std::array<std::uint32_t, 5> box{};
};
/// The driver takes longer over it than the library over the rest of a call. `name` is for the message.
Status encode(const BoxedTensor&, const char* name, TensorMap&);

/// Device memory for those who have no allocator of their own, and copies in any direction, waited for.
Result<void*> allocate(const Device&, std::int64_t bytes);
Status release(const Device&, void* memory);
/// Memory that belongs to a stream's order: it can be given back before the work that uses it is done.
class OrderedMemory {
 public:
  OrderedMemory(const Device&, std::int64_t bytes, Stream);
  ~OrderedMemory();
  OrderedMemory(const OrderedMemory&) = delete;
  OrderedMemory& operator=(const OrderedMemory&) = delete;
  const Status& status() const { return status_; }
  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  const Device& device_;
  Stream stream_;
  Address address_ = 0;
  Status status_;
};

/// Until all work in the stream is done.
Status wait(const Device&, Stream);
Status copy(const Device&, void* to, const void* from, std::int64_t bytes);

}  // namespace regard::cuda
