// Regard's view of a GPU: devices, kernels that are loaded and launched in streams, streams that record
// graphs, and memory. Each vendor's GPUs are driven by a backend (device/gpu_backend.h), which is found by
// the kind of its targets: CUDA and HIP.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace regard::gpu {

// ---- backends and devices

struct Backend;

std::span<const Backend* const> backends();
/// By the kind of its targets, "cuda" or "hip"; null for other words.
const Backend* find_backend(std::string_view kind);
/// "cuda", "hip"
std::string_view kind_of(const Backend&);

struct Device {
  const Backend* backend = nullptr;
  int ordinal = 0;  ///< among those of its backend
  std::string name;
  std::string chip;  ///< as its vendor names it to compilers: "sm_90", "gfx942"
  int multiprocessors = 0;
  std::int64_t shared_memory = 0;  ///< bytes that one block can request
};

/// Of one backend.
constexpr int most_devices = 64;

/// All devices of a backend, found once; the error says why there are none.
const Result<std::vector<Device>>& devices(const Backend&);

/// The device of the calling thread's current context; the first one where there is none.
Result<const Device*> current_device(const Backend&);

/// Success when the device can run code for a target of its backend's kind ("sm_90a", "gfx942").
Status runs_on(const Device&, std::string_view target);

/// Makes a device current as long as this object exists: "in use".
class Use {
 public:
  explicit Use(const Device&);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  const Status& status() const { return status_; }

 private:
  const Backend& backend_;
  std::optional<int> former_;
  Status status_;
};

// ---- kernels and streams; handles are the driver's

using Function = struct FunctionOfDriver*;
using Stream = struct StreamOfDriver*;

/// Success when these bytes are machine code for GPUs of the backend.
Status check_binary(const Backend&, std::span<const std::byte> binary, const std::string& symbol);

/// A compiled kernel. Its code is loaded into a device when it is first needed there, and stays.
class Kernel {
 public:
  Kernel(const Backend&, std::vector<std::byte> binary, std::string symbol);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  const Backend& backend() const { return backend_; }
  /// Loads it if it is not loaded yet. The device must be in use.
  Result<Function> load(const Device&) const;
  /// The same for a launch: while `stream` is capturing a graph nothing can be loaded, and the error names
  /// regard_plan_prepare.
  Result<Function> function(const Device&, Stream) const;

 private:
  const Backend& backend_;
  std::vector<std::byte> binary_;
  std::string symbol_;
  mutable std::mutex mutex_;
  mutable std::array<std::atomic<Function>, most_devices> functions_{};
};

struct Launch {
  std::int64_t blocks = 0;
  int threads = 0;  ///< per block
  std::int64_t shared_bytes = 0;
  int cluster = 1;        ///< blocks per cluster
  bool overlaps = false;  ///< can begin while the previous launch ends, and waits for that in its code
};

/// Enqueues a launch in the stream; the device must be in use. Without blocks there is nothing to do.
Status launch(const Device&, Function, const Launch&, Stream, std::span<void* const> parameters);

/// Waits until all work in the stream is done.
Status wait(const Device&, Stream);
/// Whether the stream is capturing a graph, so that nothing can be waited for; also where the driver does not
/// say.
bool is_captured(const Device&, Stream);

/// A 32-bit counter that is 0 when the next launch in this stream begins, for kernels that leave it at 0.
/// Null while the stream is capturing a graph, which can be launched in another stream, concurrently with
/// this stream's own work; also for streams beyond the first thousand or so. The device must be in use.
std::uint32_t* counter_at_zero(const Device&, Stream);
/// Sets memory to 0 in the stream's order. The device must be in use.
Status clear(const Device&, void* memory, std::int64_t bytes, Stream);

// ---- memory

/// The device of the backend on which the memory is. `name` is for the message: "q", "the workspace".
Result<const Device*> device_of(const Backend&, const void* memory, const char* name);
/// Whether this thread has recently found memory at that address on the device, which saves asking the
/// driver. Memory that was freed since may have been reallocated on another device: call `device_of` for at
/// least one tensor of a call.
bool seen_on(const Device&, const void* memory);
/// The device of any backend on which the memory is; null: the host.
const Device* device_holding(const void* memory);

/// Device memory for callers that have no allocator, and synchronous copies in any direction.
Result<void*> allocate(const Device&, std::int64_t bytes);
Status release(const Device&, void* memory);
Status copy(const Device&, void* to, const void* from, std::int64_t bytes);

/// Stream-ordered memory: it can be freed before the work that uses it is done.
class OrderedMemory {
 public:
  OrderedMemory(const Device&, std::int64_t bytes, Stream);
  ~OrderedMemory();
  OrderedMemory(const OrderedMemory&) = delete;
  OrderedMemory& operator=(const OrderedMemory&) = delete;
  const Status& status() const { return status_; }
  void* data() const { return data_; }

 private:
  const Device& device_;
  Stream stream_;
  void* data_ = nullptr;
  Status status_;
};

// ---- tensor maps, on NVIDIA GPUs from Hopper on

/// A descriptor by which the tensor memory accelerator copies boxes.
struct alignas(64) TensorMap {
  std::uint64_t opaque[16];
};

/// A tensor of up to 5 dimensions, the first one contiguous, as its boxes are copied: with 128-byte swizzle,
/// and zeros beyond its sizes. Strides in bytes, from the second dimension on.
struct BoxedTensor {
  enum class Type : std::uint8_t { uint8, fp16, bf16 };
  void* data = nullptr;
  Type type = Type::bf16;
  std::uint32_t rank = 0;
  std::array<std::uint64_t, 5> sizes{};
  std::array<std::uint64_t, 4> strides{};
  std::array<std::uint32_t, 5> box{};
};
/// The device must be in use. This takes the driver longer than the rest of a call takes the library. `name`
/// is for the message.
Status encode(const Device&, const BoxedTensor&, const char* name, TensorMap&);

}  // namespace regard::gpu
