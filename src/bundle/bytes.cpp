#include "bundle/bytes.h"

#include <algorithm>

namespace regard::bundle {

std::uint64_t Bytes::count() const {
  const auto* const file = std::get_if<RegularFile>(&source_);
  return file != nullptr ? file->bytes() : std::get<std::span<const std::byte>>(source_).size();
}

Status Bytes::read_at(std::uint64_t offset, std::span<std::byte> part) const {
  if (const auto* const file = std::get_if<RegularFile>(&source_)) return file->read_at(offset, part);
  const auto& memory = std::get<std::span<const std::byte>>(source_);
  if (offset > memory.size() || part.size() > memory.size() - offset) return invalid("it is too short");
  std::ranges::copy(memory.subspan(static_cast<std::size_t>(offset), part.size()), part.begin());
  return {};
}

FileState state_of(const RegularFile& file) {
  const struct stat& status = file.status();
  return {status.st_dev, status.st_ino, file.bytes(), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Access access_of(const struct stat& status) {
  return {status.st_uid, status.st_gid, status.st_mode};
}

Result<Bytes> open(const Location& location, bool& changed) {
  if (location.file.empty()) return Bytes(location.memory);
  Result<RegularFile> file = RegularFile::open(location.file, Links::followed);
  if (!file) return tl::unexpected(file.error());
  changed = state_of(*file) != location.state;
  return Bytes(std::move(*file));
}

}  // namespace regard::bundle
