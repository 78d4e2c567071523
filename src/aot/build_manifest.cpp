#include "aot/build_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "aot/bundle_output.h"
#include "aot/compile_all.h"
#include "aot/folder.h"
#include "aot/library.h"
#include "aot/manifest.h"
#include "aot/outputs.h"
#include "aot/report.h"
#include "aot/selection.h"
#include "aot/wheel.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace regard::aot {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Next to the manifest.
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

/// Looked for first, so that missing parts are reported at the start of a build rather than at its end.
Result<std::optional<Linker>> linker_for(const Manifest& manifest) {
  if (!manifest.makes_library()) return std::nullopt;
  Result<Linker> found = Linker::find();
  if (!found) return tl::unexpected(found.error());
  return std::move(*found);
}

/// The files whose names are known before they are built; the name of a wheel contains its bundle's checksum.
Names known_outputs(const Manifest& manifest) {
  const std::vector<std::string> of_libraries = library_files(manifest);
  Names names(of_libraries.begin(), of_libraries.end());
  if (manifest.wants(Output::bundle)) names.insert(bundle_name(manifest));
  return names;
}

std::vector<std::string> inputs_of(const Manifest& manifest) {
  std::vector<std::string> paths = manifest.records;
  paths.push_back(manifest.file);
  for (const Manifest::Binary& binary : manifest.binaries) paths.push_back(binary.path);
  return paths;
}

/// Writes the bundle, then the other outputs, which contain it, all into the folder `staged`.
Status write_outputs(const Manifest& manifest, const std::string& staged, const std::optional<Linker>& linker,
                     std::vector<Built>& kernels, Report& report) {
  const auto read = [&](const std::string& name) -> Result<std::string> {
    const std::string path = staged + "/" + name;
    Result<std::string> bytes = read_file(path, std::numeric_limits<std::uint64_t>::max(), Links::refused);
    if (!bytes) return fail(bytes.error().kind, in_quotes(path) + ": " + bytes.error().message);
    return bytes;
  };
  const auto report_on = [&](Output output, const std::string& name, std::uint64_t bytes, const Digest& sum) {
    report.outputs.push_back({output, report.folder + "/" + name, bytes, sum});
  };
  const auto take = [&](Output output, const std::string& name) -> Status {
    const Result<std::string> bytes = read(name);
    if (!bytes) return tl::unexpected(bytes.error());
    report_on(output, name, bytes->size(), sha256(*bytes));
    return {};
  };
  const std::string bundle = bundle_name(manifest);
  if (Status status = write_bundle_output(manifest, staged + "/" + bundle, kernels); !status) return status;
  report.files = known_outputs(manifest);
  if (manifest.wants(Output::bundle) || manifest.wants(Output::python)) {
    Result<std::string> bytes = read(bundle);
    if (!bytes) return tl::unexpected(bytes.error());
    const Digest sum = sha256(*bytes);
    if (manifest.wants(Output::bundle)) report_on(Output::bundle, bundle, bytes->size(), sum);
    if (manifest.wants(Output::python)) {
      const std::string wheel = wheel_name(manifest, sum.hex());
      if (Status status = write_wheel(manifest, staged + "/" + wheel, std::move(*bytes), sum.hex()); !status)
        return status;
      report.files.insert(wheel);
      if (Status status = take(Output::python, wheel); !status) return status;
    }
  }
  if (linker) {
    const Result<std::vector<LibraryFile>> made = write_libraries(manifest, staged, *linker);
    if (!made) return tl::unexpected(made.error());
    for (const LibraryFile& library : *made)
      if (Status status = take(library.output, library.name); !status) return status;
  }
  return {};
}

}  // namespace

Result<std::string> build_manifest(const std::string& path, const Options& options) {
  const Clock::time_point start = Clock::now();
  const Result<Manifest> manifest =
      options.text.empty() ? read_manifest(path) : parse_manifest(options.text, path);
  if (!manifest) return tl::unexpected(manifest.error());
  const Detail detail = options.only == Only::check ? Detail::counts : Detail::kernels;
  const Result<Selection> selection = select(*manifest, detail);
  if (!selection) return tl::unexpected(selection.error());
  if (options.only != Only::build) return to_json(*manifest, *selection, detail);

  const Result<std::optional<Linker>> linker = linker_for(*manifest);
  if (!linker) return tl::unexpected(linker.error());
  const Result<std::unique_ptr<Folder>> folder =
      Folder::take(options.output.empty() ? default_folder(*manifest) : options.output);
  if (!folder) return tl::unexpected(folder.error());
  const Result<Outputs> outputs = Outputs::of(**folder, inputs_of(*manifest));
  if (!outputs) return tl::unexpected(outputs.error());
  if (Status status = outputs->check(known_outputs(*manifest)); !status)
    return tl::unexpected(status.error());
  const std::size_t total = selection->count();
  Result<std::vector<Built>> kernels =
      compile_all(*selection, (*folder)->store(), options.jobs, [&](const Built& built, std::size_t done) {
        if (options.progress) options.progress(progress_json(built, done, total, seconds_since(start)));
      });
  if (!kernels) return tl::unexpected(kernels.error());

  Report report;
  report.folder = (*folder)->path();
  const bool whole = std::ranges::all_of(*kernels, [](const Built& built) { return built.failure.empty(); });
  const Result<Folder::Staging> staging = (*folder)->stage();
  if (!staging) return tl::unexpected(staging.error());
  if (whole) {
    if (Status status = write_outputs(*manifest, staging->path(), *linker, *kernels, report); !status)
      return tl::unexpected(status.error());
  }
  report.seconds = seconds_since(start);
  std::string json;
  const Names made = report.files;
  const Status replaced = outputs->replace(staging->path(), made, [&](const Names& files) {
    report.files = files;
    json = to_json(*manifest, *selection, *kernels, report);
    return json + "\n";
  });
  if (!replaced) return tl::unexpected(replaced.error());
  return json;
}

}  // namespace regard::aot
