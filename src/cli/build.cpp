// regard build: builds what a manifest asks for, or, with --check and --list, reports what that is.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/failure.h"
#include "cli/held_signals.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/verbs.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

/// "12: 3 of 24 have no kernel on sm_90a: ..." for each table that a target does not support completely.
std::string not_served(const Json& answer) {
  std::string text;
  for (const Json& variants : answer["variants"]) {
    for (const Json& count : variants["targets"]) {
      if (!count.contains("unserved")) continue;
      text += fmt::format("line {}: {} of {} have no kernel on {}: {}\n", cell(variants, "line"),
                          cell(count, "unserved"), cell(count, "asked"), cell(count, "target"),
                          cell(count, "why"));
    }
  }
  return text;
}

/// How many kernels each table amounts to on each target.
std::string counts(const Json& answer) {
  std::vector<std::vector<std::string>> rows = {{"line", "kernels for"}};
  for (const Json& target : answer["targets"]) rows.front().push_back(cell(target, "target"));
  for (const Json& variants : answer["variants"]) {
    rows.push_back({cell(variants, "line"), cell(variants, "what")});
    for (const Json& count : variants["targets"]) rows.back().push_back(cell(count, "kernels"));
  }
  rows.push_back({"", "all, each once"});
  for (const Json& target : answer["targets"]) rows.back().push_back(cell(target, "count"));
  return table(rows);
}

std::string kernels(const Json& answer) {
  std::vector<std::vector<std::string>> rows = {{"lines", "kernel"}};
  for (const Json& kernel : answer["kernels"]) {
    std::string name = cell(kernel, "kernel");
    if (kernel.contains("binary")) name += " <- " + cell(kernel, "binary");
    rows.push_back({fmt::format("{}", fmt::join(kernel["lines"].get<std::vector<int>>(), ",")), name});
  }
  return table(rows);
}

std::string warnings(const Json& answer) {
  std::string text;
  for (const Json& warning : answer["warnings"])
    text += fmt::format("warning: {}\n", warning.get<std::string>());
  return text;
}

/// What was built, and the compiler's output for what was not.
std::string built(const Json& answer) {
  std::string text;
  double slowest = 0;
  for (const Json& kernel : answer["kernels"]) {
    if (!kernel["kept"]) slowest = std::max(slowest, kernel["seconds"].get<double>());
    if (kernel.contains("failure"))
      text += fmt::format("{}: {}\n", cell(kernel, "kernel"), kernel["failure"].get<std::string>());
  }
  text += warnings(answer);
  for (const Json& output : answer["outputs"]) {
    text += fmt::format("{} {}, {}, SHA-256 {}\n", cell(output, "output"), cell(output, "path"),
                        readable_bytes(output["bytes"].get<double>()), cell(output, "sha256"));
  }
  const int count = answer["count"], kept = answer["kept"], failed = answer["failed"];
  const int from_files = answer["from_files"];
  text += fmt::format(
      "{} kernels in {:.0f} s: {} compiled (the slowest in {:.1f} s), {} there before{}, {} failed\n", count,
      answer["seconds"].get<double>(), count - kept - from_files - failed, slowest, kept,
      from_files == 0 ? "" : fmt::format(", {} taken from files", from_files), failed);
  return text;
}

/// A signal that ends the command is raised before main would report the error.
std::string build_or_tell(const std::string& manifest, const BuildOptions& options) {
  try {
    return regard::build_manifest(manifest, options);
  } catch (const error& failure) {
    if (failure.status() == REGARD_INTERRUPTED)
      std::fprintf(stderr, "regard: %s\n", printable(failure.what()).c_str());
    throw;
  }
}

}  // namespace

Answer build_verb(const Request& request) {
  const HeldSignals held;  // half-written files are removed before the command ends
  BuildOptions options;
  options.output = request.output;
  options.jobs = request.threads;
  options.only = request.only;
  std::unique_ptr<Progress> progress;
  options.progress = [&progress](const std::string& json) {
    const Json event = json_of(json);
    if (progress == nullptr) progress = std::make_unique<Progress>(event.at("total"), "kernels");
    progress->step();
  };
  const Json answer = json_of(build_or_tell(request.manifest, options));
  const bool failed = request.only == 0 && answer["failed"] > 0;
  const ExitCode code = failed ? exit_refused : exit_ok;
  if (request.json) return {json_text(answer, 2) + "\n", code};
  if (request.only == 0) return {built(answer), code};
  return {(request.only == 2 ? kernels(answer) : "") + counts(answer) + not_served(answer) +
          warnings(answer) + fmt::format("{} kernels\n", cell(answer, "count"))};
}

}  // namespace regard::cli
