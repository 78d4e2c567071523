#include "aot/build_manifest.h"

#include "abi/handles.h"
#include "abi/versions.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

Result<aot::Options> build_options(const regard_build_options* options) {
  aot::Options result;
  if (options == nullptr) return result;
  static constexpr Versions versions = {"regard_build_options", "REGARD_BUILD_OPTIONS_INIT",
                                        sizeof(regard_build_options), 1};
  regard_build_options storage;
  const Result<const regard_build_options*> known = this_version(options, storage, versions);
  if (!known) return tl::unexpected(known.error());
  const regard_build_options& given = **known;
  if (given.jobs < 0) return invalid(fmt::format("jobs={} is negative; 0 means all cores", given.jobs));
  if (given.only < 0 || given.only > static_cast<std::int32_t>(aot::Only::list))
    return invalid(fmt::format("only={} does not exist; 0 builds, 1 checks, 2 lists", given.only));
  if (given.text != nullptr) result.text = given.text;
  if (given.output != nullptr) result.output = given.output;
  result.jobs = given.jobs;
  result.only = static_cast<aot::Only>(given.only);
  if (given.progress != nullptr) {
    result.progress = [tell = given.progress, context = given.context](const std::string& json) {
      tell(context, json.c_str());
    };
  }
  return result;
}

}  // namespace

regard_status regard_build(const char* manifest, const regard_build_options* options, char** json) {
  return guarded([&] {
    if (manifest == nullptr) return report(null_argument("manifest").value());
    if (json == nullptr) return report(null_argument("json").value());
    const Result<aot::Options> chosen = build_options(options);
    if (!chosen) return report(chosen.error());
    const Result<std::string> built = aot::build_manifest(manifest, *chosen);
    return built ? give(*built, json) : report(built.error());
  });
}
