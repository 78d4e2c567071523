// Structs of the C ABI that begin with their size: for callers with an older or a newer header it differs.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/result.h"

namespace regard::c_api {

/// What the library knows about the versions of a struct that callers pass.
struct Versions {
  std::string_view name, initializer;
  std::size_t first;  ///< size in the first version of the header
  std::size_t grain;  ///< later versions are longer by multiples of this
};

/// No version will ever be this much longer than ours, so a larger size is a mistake, and nothing is read
/// there.
inline constexpr std::size_t most_unknown_bytes = 1 << 16;

/// `given` itself where its version is ours, else `storage` with the members that both know.
template <class Struct>
Result<const Struct*> this_version(const Struct* given, Struct& storage, const Versions& versions) {
  constexpr std::size_t ours = sizeof(Struct);
  const std::size_t size = given->size;
  if (size == ours) return given;
  const bool possible = size >= versions.first && size <= ours + most_unknown_bytes &&
                        (size - versions.first) % versions.grain == 0;
  if (!possible) {
    return invalid(
        fmt::format("{}.size is {}, which no version of Regard has (this one has {}); set it with {}",
                    versions.name, size, ours, versions.initializer));
  }
  const char* bytes = reinterpret_cast<const char*>(given);
  if (size > ours && std::any_of(bytes + ours, bytes + size, [](char byte) { return byte != 0; })) {
    return invalid(fmt::format(
        "{}.size is {} and this library knows {} bytes of it, but what lies beyond is not zero; leave "
        "it out or load a newer Regard",
        versions.name, size, ours));
  }
  storage = {};
  std::memcpy(&storage, given, std::min(size, ours));
  storage.size = ours;
  return &storage;
}

}  // namespace regard::c_api
