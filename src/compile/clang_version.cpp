#include "compile/clang_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace regard {
namespace {

/// The first version that knows gfx950 and targets for whole families.
constexpr int knows_families = 20;

}  // namespace

std::string_view chip_of(std::span<const std::string> options) {
  constexpr std::string_view option = "--offload-arch=";
  for (const std::string_view one : options)
    if (one.starts_with(option)) return one.substr(option.size());
  return "";
}

int clang_version(std::string_view identity) {
  constexpr std::string_view before = "clang version ";
  int newest = 0;
  for (std::size_t at = 0; (at = identity.find(before, at)) != std::string_view::npos;) {
    at += before.size();
    int version = 0;
    std::from_chars(identity.data() + at, identity.data() + identity.size(), version);
    newest = std::max(newest, version);
  }
  return newest;
}

Status knows_chip(std::string_view identity, std::span<const std::string> options,
                  std::string_view compiler) {
  const std::string_view chip = chip_of(options);
  const int version = clang_version(identity);
  if (version >= knows_families || (chip != "gfx950" && !chip.ends_with("-generic"))) return {};
  return fail(ErrorKind::no_kernel,
              fmt::format("{} clang {}, and kernels for {} need clang {} or later; install one, or set "
                          "REGARD_HIP_CLANG to it",
                          compiler, version, chip, knows_families));
}

}  // namespace regard
