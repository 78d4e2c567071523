#include "bundle/access.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

namespace regard::bundle {
namespace {

/// In a folder such as /tmp, whose sticky bit is set, users can replace only their own files.
bool is_open(const Access& access, std::uint32_t writers) {
  const bool keeps_files = S_ISDIR(access.mode) && (access.mode & S_ISVTX) != 0;
  return (access.mode & writers) != 0 && !keeps_files;
}

template <class Say>
std::string first_of(const Location& location, const Say& say) {
  if (location.file.empty()) return "";
  if (std::string said = say("it", location.access); !said.empty()) return said;
  struct stat status;
  const std::string folder = std::filesystem::path(location.file).parent_path().string();
  return stat(folder.c_str(), &status) == 0 ? say("its folder", access_of(status)) : "";
}

}  // namespace

std::string world_writable(const Location& location) {
  return first_of(location, [](const char* what, const Access& access) -> std::string {
    if (!is_open(access, S_IWOTH)) return "";
    return fmt::format("{} is world-writable (mode {:o})", what, access.mode & 07777);
  });
}

std::string writable_by_another(const Location& location) {
  return first_of(location, [](const char* what, const Access& access) -> std::string {
    if (access.owner != geteuid() && access.owner != 0)
      return fmt::format("{} belongs to user {}", what, access.owner);
    if (is_open(access, S_IWGRP) && access.group != getegid())
      return fmt::format("group {} can write {}{}", access.group, S_ISDIR(access.mode) ? "to " : "", what);
    return "";
  });
}

}  // namespace regard::bundle
