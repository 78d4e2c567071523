// Machine code of NVIDIA GPUs: which binaries are accepted, how they are loaded and launched.
#include <fmt/format.h>

#include <limits>

#include "base/elf.h"
#include "base/process_lifetime.h"
#include "device/cuda/cuda.h"

namespace regard::cuda {

Status check_binary(std::span<const std::byte> binary, const std::string& symbol) {
  const char* const defect = code_object_defect(binary, EM_CUDA);
  if (defect == nullptr) return {};
  return fail(ErrorKind::no_kernel,
              fmt::format("the binary of kernel '{}' cannot be loaded: {}", symbol, defect));
}

Result<Function> load(const Device& device, std::span<const std::byte> binary, const std::string& symbol) {
  const Driver& cuda = *driver();
  ModuleHandle module = nullptr;
  if (Status status = check(cuda.load_module(&module, binary.data()), "load a kernel"); !status)
    return tl::unexpected(status.error());
  Function function = nullptr;
  int used = 0;
  Status status = check(cuda.module_function(&function, module, symbol.c_str()), "find a kernel");
  if (status)
    status = check(cuda.function_attribute(&used, attribute_static_shared, function), "describe a kernel");
  if (status) {
    const int most = static_cast<int>(device.shared_memory) - used;
    status = check(cuda.set_function_attribute(function, attribute_dynamic_shared, most),
                   "give a kernel its shared memory");
  }
  if (!status) {
    cuda.unload_module(module);
    return tl::unexpected(status.error());
  }
  return function;
}

namespace {

/// Older drivers cannot capture overlapping launches in a graph.
bool can_overlap() {
  return process_lifetime<[] {
    constexpr int first_version = 12030;
    int version = 0;
    return driver()->version(&version) == success && version >= first_version;
  }>();
}

}  // namespace

Status launch(Function function, const gpu::Launch& requested, Stream stream,
              std::span<void* const> parameters) {
  if (requested.blocks > std::numeric_limits<int>::max()) {
    return refused(fmt::format("{} blocks are more than CUDA launches at once (2^31 - 1)", requested.blocks));
  }
  LaunchConfiguration configuration{};
  configuration.grid[0] = static_cast<unsigned>(requested.blocks);
  configuration.block[0] = static_cast<unsigned>(requested.threads);
  configuration.grid[1] = configuration.grid[2] = configuration.block[1] = configuration.block[2] = 1;
  configuration.shared_bytes = static_cast<unsigned>(requested.shared_bytes);
  configuration.stream = stream;
  LaunchValue attributes[2];
  configuration.attributes = attributes;
  if (requested.cluster > 1) {
    LaunchValue& cluster = attributes[configuration.attribute_count++];
    cluster = {attribute_cluster, 0, {}};
    cluster.cluster[0] = static_cast<unsigned>(requested.cluster);
    cluster.cluster[1] = cluster.cluster[2] = 1;
  }
  if (requested.overlaps && can_overlap()) {
    LaunchValue& overlap = attributes[configuration.attribute_count++];
    overlap = {attribute_overlap, 0, {}};
    overlap.overlap = 1;
  }
  return check(driver()->launch(&configuration, function, const_cast<void**>(parameters.data()), nullptr),
               "launch a kernel");
}

}  // namespace regard::cuda
