// Several sets of kernels in one process: each is a bundle, built from a manifest with its own namespace.
#include "gallery.h"

#include <unistd.h>
#include <cstdlib>
#include <filesystem>

namespace {

/// Builds a manifest in a folder of its own, and adds its bundle.
void build_and_add(const std::string& space, const std::string& problem, const std::string& target) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("gallery-" + std::to_string(getpid()) + "-" + space);
  regard::BuildOptions options;
  options.text = "[build]\nnamespace = \"" + space + "\"\ntargets = [\"" + target +
                 "\"]\n[[variants]]\nproblems = [\"" + problem + "\"]\n";
  options.output = folder.string();
  regard::build_manifest(space + ".toml", options);
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() == ".bundle") regard::add_bundle(file.path().string());
  }
  std::filesystem::remove_all(folder);  // the bundle stays open
}

}  // namespace

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    setenv("REGARD_BUILT_IN", "off", 1);  // before the first call, which reads the settings
    for (const char* mask : {"none", "causal"}) {
      const std::string problem = std::string("fwd fp32 h=4 s=64 d=64 mask=") + mask;
      gallery::Call call(problem, target);
      build_and_add(mask, problem, call.plan().target());
      regard::Plan plan = call.plan();
      plan.prepare();
      const bool bundled = plan.json().find("\"tier\":\"bundle") != std::string::npos;
      std::printf("from the bundle: %s\n", bundled ? "yes" : "no");
      call.run(plan);
      call.judge();
    }
  });
}
