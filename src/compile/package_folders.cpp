#include "compile/package_folders.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/process_lifetime.h"
#include "compile/rtc_library.h"

namespace regard {
namespace {

namespace fs = std::filesystem;

constinit std::atomic<const std::vector<std::string>*> of_python{nullptr};

}  // namespace

void name_package_folders(std::vector<std::string> folders) {
  publish(of_python, std::make_unique<const std::vector<std::string>>(std::move(folders)));
}

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  if (const auto* named = of_python.load(std::memory_order_acquire)) folders = *named;
  const std::string self = file_of(reinterpret_cast<const void*>(&package_folders));
  if (self.empty()) return folders;
  std::string own = fs::absolute(self).parent_path().parent_path().string();
  if (std::ranges::find(folders, own) == folders.end()) folders.push_back(std::move(own));
  return folders;
}

}  // namespace regard
