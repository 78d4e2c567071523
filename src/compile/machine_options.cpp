#include "compile/machine_options.h"

namespace regard {
namespace {

// Otherwise both compilers call functions of libgcc for atomics, with which kernels are not linked.
constexpr std::string_view for_aarch64[] = {"-mno-outline-atomics"};

}  // namespace

std::span<const std::string_view> machine_options(std::string_view compiler_identity) {
  if (compiler_identity.find("; Target: aarch64") != std::string_view::npos) return for_aarch64;
  return {};
}

}  // namespace regard
