// The implementation of device/gpu.h for NVIDIA GPUs, using the CUDA driver.
#pragma once

#include "device/cuda/driver.h"
#include "device/gpu_backend.h"

namespace regard::cuda {

using gpu::Device;

extern const gpu::Backend backend;

// The functions of the backend; gpu_backend.h says what each does.
const Result<std::vector<Device>>& devices();
Result<const Device*> current_device();
Status runs_on(const Device&, std::string_view target);
Status enter(const Device&, std::optional<int>& former);
void leave(int former);

Status check_binary(std::span<const std::byte> binary, const std::string& symbol);
Result<Function> load(const Device&, std::span<const std::byte> binary, const std::string& symbol);
Status encode(const gpu::BoxedTensor&, const char* name, gpu::TensorMap&);
Status launch(Function, const gpu::Launch&, Stream, std::span<void* const> parameters);
Status wait(Stream);
bool is_capturing(Stream);
bool number_of(Stream, std::uint64_t& number);

Result<const Device*> device_of(const void* memory, const char* name);
Result<void*> allocate(const Device&, std::int64_t bytes);
Status release(void* memory);
Result<void*> allocate_ordered(std::int64_t bytes, Stream);
void release_ordered(void* memory, Stream);
Status copy(void* to, const void* from, std::int64_t bytes);
Status clear(void* memory, std::int64_t bytes, Stream);

}  // namespace regard::cuda
