#include "aot/report.h"

#include <algorithm>

#include "base/json.h"
#include "compile/manifest.h"

namespace regard::aot {
namespace {

void write(JsonWriter& json, const Report::Written& written) {
  json.object([&] {
    json.member("bytes", written.bytes);
    json.member("output", word(written.output));
    json.member("path", written.path);
    json.member("sha256", written.sum.hex());
  });
}

void write(JsonWriter& json, const Built& built) {
  json.object([&] {
    json.member("bytes", built.bytes);
    if (!built.failure.empty()) json.member("failure", built.failure);
    json.member("kept", built.kept);
    json.member("kernel", built.kernel->text);
    json.member("lines", built.kernel->lines);
    if (built.resources) json.member("resources", [&] { json.raw(resources_json(*built.resources)); });
    json.member("seconds", built.seconds);
    json.member("target", built.kernel->key.target);
  });
}

}  // namespace

std::string to_json(const Manifest& manifest, const Selection& selection, const std::vector<Built>& kernels,
                    const Report& report) {
  const auto failed =
      std::ranges::count_if(kernels, [](const Built& built) { return !built.failure.empty(); });
  JsonWriter json;
  json.object([&] {
    json.member("count", kernels.size());
    json.member("failed", failed);
    json.member("files", report.files);
    json.member("folder", report.folder);
    json.member("from_files", std::ranges::count_if(kernels, [](const Built& built) {
                  return built.kernel->binary != nullptr && built.failure.empty();
                }));
    json.member("kept", std::ranges::count(kernels, true, &Built::kept));
    json.member("kernels", [&] {
      json.list([&] {
        for (const Built& built : kernels) write(json, built);
      });
    });
    json.member("manifest", manifest.file);
    json.member("namespace", manifest.name_space);
    json.member("outputs", [&] {
      json.list([&] {
        for (const Report::Written& written : report.outputs) write(json, written);
      });
    });
    json.member("seconds", report.seconds);
    json.member("undeclared", word(manifest.undeclared));
    json.member("version", REGARD_VERSION);
    json.member("warnings", selection.warnings);
  });
  return json.take();
}

}  // namespace regard::aot
