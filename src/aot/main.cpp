// regard-build: compiles a profile's CPU kernels into objects and writes the table that names them.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <thread>

#include "aot/built_in_kernels.h"
#include "base/atomic_file.h"
#include "plan/profile.h"

namespace {

int complain(const regard::Error& error) {
  std::fprintf(stderr, "regard-build: %s\n", error.message.c_str());
  return 1;
}

/// Target by target, each list sorted.
regard::Result<std::vector<std::string>> keys_of_profile(const std::string& profile_name,
                                                         const std::vector<std::string>& targets) {
  const auto profile = regard::find_profile(profile_name);
  if (!profile) return tl::unexpected(profile.error());
  std::vector<std::string> texts;
  for (const std::string& name : targets) {
    const auto target = regard::find_target(name);
    if (!target) return tl::unexpected(target.error());
    const auto keys = regard::keys_of_profile(**profile, **target);
    if (!keys) return tl::unexpected(keys.error());
    if (keys->empty())
      return regard::refused(fmt::format("target {} has no kernels of profile {}", name, profile_name));
    for (const regard::KernelKey& key : *keys) texts.push_back(print(key));
  }
  return texts;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Compile a profile's CPU kernels ahead of time"};
  std::string profile = "default";
  std::vector<std::string> targets;
  regard::aot::Order order;
  order.jobs = static_cast<int>(std::thread::hardware_concurrency());
  std::string objects_file;
  app.add_option("--profile", profile, "which signatures");
  app.add_option("--targets", targets, "comma-separated CPU targets")->delimiter(',')->required();
  app.add_option("--compiler", order.compiler, "host C++ compiler")->required();
  app.add_option("--output", order.folder, "folder for sources, objects and the table")->required();
  app.add_option("--objects", objects_file, "write the list of objects here, one per line")->required();
  app.add_option("--jobs", order.jobs, "compiles at a time");
  CLI11_PARSE(app, argc, argv);

  auto kernels = keys_of_profile(profile, targets);
  if (!kernels) return complain(kernels.error());
  order.kernels = std::move(*kernels);
  const auto objects = regard::aot::compile_built_in(order);
  if (!objects) return complain(objects.error());
  const auto written =
      regard::write_atomic_file(objects_file, fmt::format("{}\n", fmt::join(*objects, "\n")));
  if (!written) return complain(written.error());
  return 0;
}
