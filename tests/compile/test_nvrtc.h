// The NVRTC of the tests: the wheel that ./dev setup installs in .venv, or REGARD_NVRTC.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "compile/nvrtc.h"

namespace regard {

/// The site-packages folder of the environment that ./dev setup makes.
inline std::vector<std::string> test_packages() {
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const auto& folder :
       std::filesystem::directory_iterator(std::filesystem::path(REGARD_SOURCE_DIR) / ".venv/lib", ignored)) {
    folders.push_back((folder.path() / "site-packages").string());
  }
  return folders;
}

inline RtcLibrary test_nvrtc() {
  const char* setting = std::getenv("REGARD_NVRTC");
  Result<RtcLibrary> library =
      open_nvrtc(nvrtc_locations(setting != nullptr ? setting : "", test_packages(), ""));
  if (!library) throw std::runtime_error(library.error().message);
  return *library;
}

inline std::unique_ptr<Toolchain> test_toolchain() {
  Result<std::unique_ptr<Toolchain>> made = make_nvrtc(test_nvrtc());
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

}  // namespace regard
