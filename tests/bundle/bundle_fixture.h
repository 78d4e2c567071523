// Bundles in the test's own folder, made of small kernels whose bytes follow from a number.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bundle/bundle.h"
#include "bundle/writer.h"
#include "support/temporary_folder.h"

namespace regard {

inline BundleInput input_number(int number, std::size_t payload_bytes = 300) {
  const std::string text = std::to_string(number);
  BundleInput input{"cpu-any kernel_" + text, sha256("source " + text), sha256("identity " + text), {}};
  input.entry.manifest = "{\"number\":" + text + "}";
  for (std::size_t i = 0; i < payload_bytes; ++i)
    input.entry.payload.push_back(
        static_cast<std::byte>((static_cast<std::size_t>(number) * 7 + i * i) % 251));
  return input;
}

inline BundleAbout about() {
  return {"acme", "1.2.3", "jit"};
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class BundleTestFiles {
 public:
  /// Writes a new bundle of these kernels under that name; returns its path.
  std::string write_kernels(const std::string& name, const std::vector<int>& numbers) const {
    std::vector<BundleInput> inputs;
    for (const int number : numbers) inputs.push_back(input_number(number));
    return write(name, std::move(inputs));
  }
  std::string write(const std::string& name, std::vector<BundleInput> inputs) const {
    const std::string path = in_folder(name);
    const Status written = write_bundle(path, about(), std::move(inputs));
    if (!written) throw std::runtime_error(written.error().message);
    return path;
  }
  static std::shared_ptr<const Bundle> open(const std::string& path,
                                            std::span<const PublicKey> trusted = {}) {
    const auto bundle = Bundle::open(path, trusted);
    if (!bundle) throw std::runtime_error(bundle.error().message);
    return *bundle;
  }
  const std::string& folder() const { return folder_.path(); }
  std::string in_folder(const std::string& name) const { return folder() + "/" + name; }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& item : std::filesystem::directory_iterator(folder()))
      names.push_back(item.path().filename());
    std::ranges::sort(names);
    return names;
  }

 private:
  const TemporaryFolder folder_;
};

class BundleTest : public testing::Test, protected BundleTestFiles {};

}  // namespace regard
