#include "device/gpu.h"

#include "device/cuda/cuda.h"
#include "device/gpu_backend.h"
#include "device/hip/hip.h"

namespace regard::gpu {
namespace {

constexpr const Backend* all[] = {&cuda::backend, &hip::backend};

}  // namespace

std::span<const Backend* const> backends() {
  return all;
}

const Backend* find_backend(std::string_view kind) {
  for (const Backend* backend : all) {
    if (backend->kind == kind) return backend;
  }
  return nullptr;
}

std::string_view kind_of(const Backend& backend) {
  return backend.kind;
}

const Result<std::vector<Device>>& devices(const Backend& backend) {
  return backend.devices();
}

Result<const Device*> current_device(const Backend& backend) {
  return backend.current_device();
}

Status runs_on(const Device& device, std::string_view target) {
  return device.backend->runs_on(device, target);
}

Use::Use(const Device& device) : backend_(*device.backend), status_(backend_.enter(device, former_)) {}

Use::~Use() {
  if (former_) backend_.leave(*former_);
}

const Device* device_holding(const void* memory) {
  for (const Backend* backend : all) {
    if (!backend->devices()) continue;
    if (const Result<const Device*> device = device_of(*backend, memory, "")) return *device;
  }
  return nullptr;
}

}  // namespace regard::gpu
