// Code objects of AMD GPUs: which ones are accepted, how they are loaded and launched.
#include <fmt/format.h>

#include <limits>

#include "base/amd_code.h"
#include "device/hip/hip.h"

namespace regard::hip {
namespace {

Error cannot_be_loaded(const std::string& symbol, const Error& why) {
  return {ErrorKind::no_kernel,
          fmt::format("the binary of kernel '{}' cannot be loaded: {}", symbol, why.message)};
}

}  // namespace

Status check_binary(std::span<const std::byte> binary, const std::string& symbol) {
  const Result<std::string_view> target = amd::target_of(binary);
  if (!target) return tl::unexpected(cannot_be_loaded(symbol, target.error()));
  return {};
}

Result<Function> load(const Device& device, std::span<const std::byte> binary, const std::string& symbol) {
  const Result<std::string_view> target = amd::target_of(binary);
  if (!target) return tl::unexpected(cannot_be_loaded(symbol, target.error()));
  if (Status status = hip::runs_on(device, *target); !status)
    return tl::unexpected(cannot_be_loaded(symbol, status.error()));
  ModuleHandle module = nullptr;
  if (Status status = check(driver()->load_module(&module, binary.data()), "load a kernel"); !status)
    return tl::unexpected(status.error());
  Function function = nullptr;
  if (Status status = check(driver()->module_function(&function, module, symbol.c_str()), "find a kernel");
      !status) {
    succeeded(driver()->unload_module(module));
    return tl::unexpected(status.error());
  }
  return function;
}

Status launch(Function function, const gpu::Launch& requested, Stream stream,
              std::span<void* const> parameters) {
  // The packet that starts a kernel counts its threads in 32 bits.
  const std::int64_t most_blocks = std::numeric_limits<std::uint32_t>::max() / requested.threads;
  if (requested.blocks > most_blocks) {
    return refused(
        fmt::format("{} blocks of {} threads are more than HIP launches at once (2^32 - 1 threads)",
                    requested.blocks, requested.threads));
  }
  return check(driver()->launch(function, static_cast<unsigned>(requested.blocks), 1, 1,
                                static_cast<unsigned>(requested.threads), 1, 1,
                                static_cast<unsigned>(requested.shared_bytes), stream,
                                const_cast<void**>(parameters.data()), nullptr),
               "launch a kernel");
}

}  // namespace regard::hip
