#include "build/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/json_writer.h"
#include "base/printable.h"
#include "base/regular_file.h"
#include "base/whole_file.h"
#include "build/bundle_output.h"
#include "build/compile_all.h"
#include "build/folder.h"
#include "build/library.h"
#include "build/manifest.h"
#include "build/report.h"
#include "build/selection.h"
#include "build/wheel.h"

namespace regard::build {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Beside the manifest.
std::string default_folder(const Manifest& manifest) {
  const std::filesystem::path file(manifest.file);
  const std::string name = manifest.name_space.empty() ? file.stem().string() : manifest.name_space;
  return (file.parent_path() / (name + "-build")).string();
}

std::string progress_json(const Built& built, std::size_t done, std::size_t total, double seconds) {
  JsonWriter json;
  json.object([&] {
    json.member("done", done);
    json.member("failed", !built.failure.empty());
    json.member("kernel", built.kernel->text);
    json.member("seconds", seconds);
    json.member("total", total);
  });
  return json.take();
}

Result<Report::Written> written(Output output, const std::string& path) {
  const Result<std::string> bytes =
      read_file(path, std::numeric_limits<std::uint64_t>::max(), Links::refused);
  if (!bytes) return fail(bytes.error().kind, in_quotes(path) + ": " + bytes.error().message);
  return Report::Written{output, path, bytes->size(), sha256(*bytes)};
}

/// Looked for first: nobody wants to hear at the end of a build that something is missing.
Result<std::optional<Linker>> linker_for(const Manifest& manifest) {
  if (!manifest.makes_library()) return std::nullopt;
  Result<Linker> found = Linker::find();
  if (!found) return tl::unexpected(found.error());
  return std::move(*found);
}

/// The bundle, which the other outputs carry, and those.
Status write_outputs(const Manifest& manifest, Folder& folder, const std::optional<Linker>& linker,
                     std::vector<Built>& kernels, Report& report) {
  const std::string bundle = folder.path_of(bundle_name(manifest));
  if (Status status = write_bundle_output(manifest, bundle, kernels); !status) return status;
  Result<Report::Written> file = written(Output::bundle, bundle);
  if (!file) return tl::unexpected(file.error());
  const std::string sum = file->sum.hex();
  if (manifest.wants(Output::bundle)) report.outputs.push_back(std::move(*file));
  if (manifest.wants(Output::python)) {
    const std::string wheel = folder.path_of(wheel_name(manifest, sum));
    if (Status status = write_wheel(manifest, wheel, bundle, sum); !status) return status;
    file = written(Output::python, wheel);
    if (!file) return tl::unexpected(file.error());
    report.outputs.push_back(std::move(*file));
  }
  if (linker) {
    const Result<std::vector<LibraryFile>> made = write_libraries(manifest, folder, *linker);
    if (!made) return tl::unexpected(made.error());
    for (const LibraryFile& library : *made) {
      file = written(library.output, library.path);
      if (!file) return tl::unexpected(file.error());
      report.outputs.push_back(std::move(*file));
    }
  }
  if (!manifest.wants(Output::bundle)) remove_all(bundle.c_str());
  return {};
}

/// What an earlier build left is not what this manifest asks for now.
void remove_outputs(const Manifest& manifest, const Folder& folder) {
  remove_all(folder.path_of(bundle_name(manifest)).c_str());
  for (const std::string& name : names_in(folder.path()))
    if (name.ends_with(".whl")) remove_all(folder.path_of(name).c_str());
  for (const std::string& name : library_files(manifest)) remove_all(folder.path_of(name).c_str());
}

}  // namespace

Result<std::string> build(const std::string& path, const Options& options) {
  const Clock::time_point start = Clock::now();
  const Result<Manifest> manifest =
      options.text.empty() ? read_manifest(path) : parse_manifest(options.text, path);
  if (!manifest) return tl::unexpected(manifest.error());
  const Result<Selection> selection = select(*manifest);
  if (!selection) return tl::unexpected(selection.error());
  if (options.only != Only::build) return to_json(*manifest, *selection, options.only == Only::list);

  const Result<std::optional<Linker>> linker = linker_for(*manifest);
  if (!linker) return tl::unexpected(linker.error());
  const Result<std::unique_ptr<Folder>> folder =
      Folder::take(options.output.empty() ? default_folder(*manifest) : options.output);
  if (!folder) return tl::unexpected(folder.error());
  const std::size_t total = selection->count();
  Result<std::vector<Built>> kernels =
      compile_all(*selection, (*folder)->store(), options.jobs, [&](const Built& built, std::size_t done) {
        if (options.progress) options.progress(progress_json(built, done, total, seconds_since(start)));
      });
  if (!kernels) return tl::unexpected(kernels.error());

  Report report;
  report.folder = (*folder)->path();
  const bool whole = std::ranges::all_of(*kernels, [](const Built& built) { return built.failure.empty(); });
  remove_outputs(*manifest, **folder);
  if (whole) {
    if (Status status = write_outputs(*manifest, **folder, *linker, *kernels, report); !status) {
      remove_outputs(*manifest, **folder);
      return tl::unexpected(status.error());
    }
  }
  report.seconds = seconds_since(start);
  const std::string json = to_json(*manifest, *selection, *kernels, report);
  if (Status status = write_whole_file((*folder)->path_of("manifest.json"), json + "\n"); !status)
    return tl::unexpected(status.error());
  return json;
}

}  // namespace regard::build
