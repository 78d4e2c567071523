// A kernel's code on the devices, and its launches.
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "base/forever.h"
#include "device/cuda.h"

namespace regard::cuda {

Status check_binary(std::span<const std::byte> binary, const std::string& symbol) {
  constexpr Elf64_Half machine_of_cuda = 190;
  Elf64_Ehdr header;
  const char* defect = nullptr;
  if (binary.size() < sizeof header) {
    defect = "it is too short";
  } else {
    std::memcpy(&header, binary.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
      defect = "it is not an ELF file";
    else if (header.e_machine != machine_of_cuda)
      defect = "it holds no machine code of NVIDIA GPUs";
  }
  if (defect == nullptr) return {};
  return fail(ErrorKind::no_kernel,
              fmt::format("the binary of kernel '{}' cannot be loaded: {}", symbol, defect));
}

Kernel::Kernel(std::vector<std::byte> binary, std::string symbol)
    : binary_(std::move(binary)), symbol_(std::move(symbol)) {}

/// Kernels live as long as the process (engine/resolve.cpp), and the driver may be gone at its end.
Kernel::~Kernel() = default;

Result<Function> Kernel::load(const Device& device) const {
  const auto index = static_cast<std::size_t>(device.ordinal);
  if (const Function known = functions_[index].load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(mutex_);
  if (const Function known = functions_[index].load(std::memory_order_relaxed)) return known;
  const Driver& cuda = *driver();
  ModuleHandle module = nullptr;
  if (Status status = check(cuda.load_module(&module, binary_.data()), "load a kernel"); !status)
    return tl::unexpected(status.error());
  Function function = nullptr;
  int used = 0;
  Status status = check(cuda.module_function(&function, module, symbol_.c_str()), "find a kernel");
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
  reserve_counters(device);  // what launches may need and cannot allocate
  functions_[index].store(function, std::memory_order_release);
  return function;
}

Result<Function> Kernel::function(const Device& device, Stream stream) const {
  if (const Function known =
          functions_[static_cast<std::size_t>(device.ordinal)].load(std::memory_order_acquire))
    return known;
  int capturing = 0;
  if (driver()->is_capturing(stream, &capturing) != success || capturing != 0) {
    return refused(fmt::format(
        "kernel '{}' is not on device {} yet, and nothing can be loaded while a stream is captured; "
        "call regard_plan_prepare (prepare() in Python), or run the call once, before the capture",
        symbol_, device.ordinal));
  }
  return load(device);
}

namespace {

/// Older drivers cannot record launches that overlap in a graph.
bool can_overlap() {
  return forever<[] {
    constexpr int first_version = 12030;
    int version = 0;
    return driver()->version(&version) == success && version >= first_version;
  }>();
}

}  // namespace

Status launch(Function function, const Launch& wanted, Stream stream, std::span<void* const> parameters) {
  if (wanted.blocks == 0) return {};
  if (wanted.blocks > std::numeric_limits<int>::max()) {
    return refused(fmt::format("{} blocks are more than CUDA launches at once (2^31 - 1)", wanted.blocks));
  }
  LaunchConfiguration configuration{};
  configuration.grid[0] = static_cast<unsigned>(wanted.blocks);
  configuration.block[0] = static_cast<unsigned>(wanted.threads);
  configuration.grid[1] = configuration.grid[2] = configuration.block[1] = configuration.block[2] = 1;
  configuration.shared_bytes = static_cast<unsigned>(wanted.shared_bytes);
  configuration.stream = stream;
  LaunchValue attributes[2];
  configuration.attributes = attributes;
  if (wanted.cluster > 1) {
    LaunchValue& cluster = attributes[configuration.attribute_count++];
    cluster = {attribute_cluster, 0, {}};
    cluster.cluster[0] = static_cast<unsigned>(wanted.cluster);
    cluster.cluster[1] = cluster.cluster[2] = 1;
  }
  if (wanted.overlaps && can_overlap()) {
    LaunchValue& overlap = attributes[configuration.attribute_count++];
    overlap = {attribute_overlap, 0, {}};
    overlap.overlap = 1;
  }
  return check(driver()->launch(&configuration, function, const_cast<void**>(parameters.data()), nullptr),
               "launch a kernel");
}

}  // namespace regard::cuda
