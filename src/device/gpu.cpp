#include "device/gpu.h"

#include "device/cuda/cuda.h"
#include "device/gpu_backend.h"

namespace regard::gpu {
namespace {

constexpr const Backend* backends[] = {&cuda::backend};

}  // namespace

const Backend* find_backend(std::string_view kind) {
  for (const Backend* backend : backends) {
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

std::vector<const Device*> all_devices() {
  std::vector<const Device*> all;
  for (const Backend* backend : backends) {
    const Result<std::vector<Device>>& own = backend->devices();
    if (!own) continue;
    for (const Device& device : *own) all.push_back(&device);
  }
  return all;
}

Result<const Device*> current_device(const Backend& backend) {
  return backend.current_device();
}

Status runs_on(const Device& device, std::string_view target) {
  return device.backend->runs_on(device, target);
}

Use::Use(const Device& device) : backend_(*device.backend), status_(backend_.enter(device, must_leave_)) {}

Use::~Use() {
  if (must_leave_) backend_.leave();
}

const Device* device_holding(const void* memory) {
  for (const Backend* backend : backends) {
    if (!backend->devices()) continue;
    if (const Result<const Device*> device = device_of(*backend, memory, "")) return *device;
  }
  return nullptr;
}

}  // namespace regard::gpu
