#include "aot/bundle_output.h"

#include <filesystem>
#include <utility>

#include "bundle/writer.h"

namespace regard::aot {

std::string bundle_name(const Manifest& manifest) {
  return (manifest.name_space.empty() ? std::filesystem::path(manifest.file).stem().string()
                                      : manifest.name_space) +
         ".bundle";
}

Status write_bundle_output(const Manifest& manifest, const std::string& path, std::vector<Built>& kernels) {
  std::vector<BundleInput> inputs;
  for (Built& built : kernels)
    inputs.push_back({built.kernel->text, built.source, built.identity, std::move(built.entry)});
  BundleAbout about{manifest.name_space, REGARD_VERSION, std::string(word(manifest.undeclared))};
  for (const TunedProblem& one : manifest.tuning) about.tuning += print(one.record) + "\n";
  return write_bundle(path, about, std::move(inputs));
}

}  // namespace regard::aot
