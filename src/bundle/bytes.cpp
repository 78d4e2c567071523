#include "bundle/bytes.h"

#include <algorithm>

namespace regard::bundle {

std::uint64_t Bytes::count() const {
  const auto* const file = std::get_if<RegularFile>(&place_);
  return file != nullptr ? file->bytes() : std::get<std::span<const std::byte>>(place_).size();
}

Status Bytes::read_at(std::uint64_t offset, std::span<std::byte> part) const {
  if (const auto* const file = std::get_if<RegularFile>(&place_)) return file->read_at(offset, part);
  const auto& memory = std::get<std::span<const std::byte>>(place_);
  if (offset > memory.size() || part.size() > memory.size() - offset) return invalid("it is too short");
  std::ranges::copy(memory.subspan(static_cast<std::size_t>(offset), part.size()), part.begin());
  return {};
}

}  // namespace regard::bundle
