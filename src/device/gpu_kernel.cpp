// A kernel's code on devices, and its launches.
#include <fmt/format.h>

#include <utility>

#include "device/gpu_backend.h"

namespace regard::gpu {

Status check_binary(const Backend& backend, std::span<const std::byte> binary, const std::string& symbol) {
  return backend.check_binary(binary, symbol);
}

Kernel::Kernel(const Backend& backend, std::vector<std::byte> binary, std::string symbol)
    : backend_(backend), binary_(std::move(binary)), symbol_(std::move(symbol)) {}

/// Kernels live as long as the process (engine/resolve.cpp), and the driver may already be gone at its end.
Kernel::~Kernel() = default;

Result<Function> Kernel::load(const Device& device) const {
  std::atomic<Function>& cached = functions_[static_cast<std::size_t>(device.ordinal)];
  if (const Function known = cached.load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(mutex_);
  if (const Function known = cached.load(std::memory_order_relaxed)) return known;
  const Result<Function> loaded = backend_.load(device, binary_, symbol_);
  if (!loaded) return loaded;
  reserve_counters(device);  // launches may need them and cannot allocate
  cached.store(*loaded, std::memory_order_release);
  return loaded;
}

Result<Function> Kernel::function(const Device& device, Stream stream) const {
  if (const Function known =
          functions_[static_cast<std::size_t>(device.ordinal)].load(std::memory_order_acquire))
    return known;
  if (backend_.is_capturing(stream)) {
    return refused(fmt::format(
        "kernel '{}' is not on device {} yet, and nothing can be loaded while a stream is captured; "
        "call regard_plan_prepare (prepare() in Python), or run the call once, before the capture",
        symbol_, device.ordinal));
  }
  return load(device);
}

Status encode(const Device& device, const BoxedTensor& tensor, const char* name, TensorMap& map) {
  return device.backend->encode(tensor, name, map);
}

Status launch(const Device& device, Function function, const Launch& requested, Stream stream,
              std::span<void* const> parameters) {
  if (requested.blocks == 0) return {};
  return device.backend->launch(function, requested, stream, parameters);
}

Status wait(const Device& device, Stream stream) {
  const Use use(device);
  return use.status() ? device.backend->wait(stream) : use.status();
}

bool is_captured(const Device& device, Stream stream) {
  const Use use(device);
  return !use.status() || device.backend->is_capturing(stream);
}

}  // namespace regard::gpu
