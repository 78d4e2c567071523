// Several sets of kernels in one process: each is a bundle, built from a manifest of its own.
#include "gallery.h"

#include <unistd.h>
#include <cstdlib>
#include <filesystem>

namespace {

/// Builds a manifest in a folder of its own, and adds its bundle.
void build_and_add(const std::filesystem::path& folder, const std::string& problem,
                   const std::string& target) {
  regard::BuildOptions options;
  options.text = "[build]\ntargets = [\"" + target + "\"]\n[[variants]]\nproblems = [\"" + problem + "\"]\n";
  options.output = folder.string();
  regard::build_manifest(folder.filename().string() + ".toml", options);
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() == ".bundle") regard::add_bundle(file.path().string());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    setenv("REGARD_BUILT_IN", "off", 1);  // before the first call, which reads the settings
    const auto folder = std::filesystem::temp_directory_path() / ("gallery-" + std::to_string(getpid()));
    for (const char* mask : {"none", "causal"}) {
      const std::string problem = std::string("fwd fp32 h=4 s=64 d=64 mask=") + mask;
      gallery::Call call(problem, target);
      build_and_add(folder / mask, problem, call.plan().target());
      regard::Plan plan = call.plan();
      plan.prepare();
      if (plan.json().find("\"tier\":\"bundle\"") == std::string::npos) throw std::runtime_error(plan.json());
      std::printf("from the bundle of %s\n", mask);
      call.run(plan);
      call.judge();
    }
    std::filesystem::remove_all(folder);
  });
}
