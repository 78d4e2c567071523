// regard prebuild: puts the kernels of profiles, a manifest or a record into the cache before they are
// needed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/parallel_for.h"
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

/// Stands for the path of a manifest that the command generated itself.
constexpr std::string_view no_manifest = "--target";

/// The kernels of a manifest by target, sorted by text, each once.
using ByTarget = std::map<std::string, std::vector<std::string>>;

void warn(const std::string& sentence) {
  std::fprintf(stderr, "regard: %s\n", printable(sentence).c_str());
}

/// A TOML string, whose escapes are those of JSON.
std::string in_toml(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    fail_with(fmt::format("{} is not UTF-8, as what a manifest names must be", in_quotes(text)));
  }
}

/// The manifest for a record, or for profiles, alone.
std::string manifest_of(const Request& request) {
  std::set<std::string> targets;
  for (const std::string& target : request.targets) targets.insert(in_toml(target));
  std::string text = fmt::format("[build]\ntargets = [{}]\n", fmt::join(targets, ", "));
  const auto ask = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("[[variants]]\n{} = {}\n", key, in_toml(value));
  };
  for (const std::string& profile : request.profiles) ask("profile", profile);
  if (!request.record.empty()) ask("record", std::filesystem::absolute(request.record).string());
  return text;
}

/// "--target:4: the record ..." without the line number of a generated manifest.
std::string without_line(const std::string& sentence) {
  constexpr std::string_view end = ": ";
  const std::size_t at = sentence.starts_with(no_manifest) ? sentence.find(end) : std::string::npos;
  return at == std::string::npos ? sentence : sentence.substr(at + end.size());
}

ByTarget asked_kernels(const Request& request) {
  BuildOptions options;
  options.only = 2;
  std::string path = request.manifest;
  if (path.empty()) {
    path = no_manifest;
    options.text = manifest_of(request);
  }
  try {
    const Json answer = json_of(regard::build_manifest(path, options));
    for (const Json& warning : answer["warnings"]) warn(without_line(warning));
    ByTarget kernels;
    for (const Json& row : answer["kernels"]) {
      if (!row.contains("binary")) kernels[cell(row, "target")].push_back(cell(row, "kernel"));
    }
    return kernels;
  } catch (const error& failure) {
    throw error(failure.status(), without_line(failure.what()));
  }
}

/// Evenly spread over a sorted list; 0: all.
std::vector<std::string> sample_of(const std::vector<std::string>& kernels, std::size_t size) {
  if (size == 0 || kernels.size() <= size) return kernels;
  std::vector<std::string> sample;
  for (std::size_t i = 0; i < size; ++i) sample.push_back(kernels[i * kernels.size() / size]);
  return sample;
}

std::vector<std::string> kernels_to_prepare(const Request& request) {
  const ByTarget asked = asked_kernels(request);
  std::vector<std::string> kernels;
  for (const std::string& target : request.targets) {
    if (!request.profiles.empty() && !asked.contains(target))
      throw error(REGARD_REFUSED, fmt::format("target {} has no kernels of profile {}", target,
                                              fmt::join(request.profiles, ", ")));
  }
  for (const auto& [target, of_target] : asked) {
    for (std::string& kernel : sample_of(of_target, request.sample)) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

/// Kernels come from exactly one source.
void check_where_from(const Request& request) {
  const int sources = !request.profiles.empty() + !request.manifest.empty() + !request.record.empty();
  if (sources != 1)
    fail_with(
        "prebuild takes kernels from one of --profile, --manifest and --record; see regard prebuild --help");
  if (request.manifest.empty() && request.targets.empty())
    fail_with("--target is required; see regard prebuild --help");
  if (!request.manifest.empty() && !request.targets.empty())
    fail_with("--target is not for --manifest, which names its targets; leave it out");
}

/// What makes a GPU kernel slower than its author intended; empty when nothing does.
std::string flaws_of(const Json& row) {
  if (!row.contains("resources")) return "";
  const Json& used = row["resources"];
  std::vector<std::string> flaws;
  if (used.at("spill_bytes") > 0) flaws.push_back(fmt::format("spills {} bytes", cell(used, "spill_bytes")));
  if (used.at("stack_bytes") > 0)
    flaws.push_back(fmt::format("has a stack of {} bytes", cell(used, "stack_bytes")));
  for (const Json& warning : used.at("warnings")) flaws.push_back(warning.get<std::string>());
  return fmt::format("{}", fmt::join(flaws, ", "));
}

Json prepare(const std::string& kernel) {
  try {
    Json row = json_of(regard::prepare_kernel(kernel));
    if (const std::string flaws = flaws_of(row); !flaws.empty()) row["flaws"] = flaws;
    return row;
  } catch (const error& failure) {
    return {{"kernel", kernel}, {"error", failure.what()}};
  }
}

std::size_t jobs_of(const Request& request) {
  if (request.threads != 0) return static_cast<std::size_t>(request.threads);
  return json_of(regard::info())["machine"]["cores"].get<std::size_t>();
}

std::vector<Json> prepare_all(const std::vector<std::string>& kernels, std::size_t jobs) {
  const HeldSignals held;  // compilers and their folders are cleaned up before the command ends
  std::vector<Json> rows(kernels.size());
  Progress progress(kernels.size(), "kernels");
  parallel_for(kernels.size(), jobs, [&](std::size_t i) {
    if (HeldSignals::arrived()) return;
    rows[i] = prepare(kernels[i]);
    progress.step();
  });
  return rows;
}

/// A cache too small for all of them keeps only the last ones; marks the others.
void mark_evicted(std::vector<Json>& rows) {
  std::set<std::string> kept;
  for (const Json& entry : json_of(regard::cache("list"))) {
    if (entry.contains("manifest")) kept.insert(cell(entry["manifest"], "kernel"));
  }
  const std::string bound = readable_bytes(json_of(regard::cache("stat")).at("bound_bytes").get<double>());
  for (Json& row : rows) {
    const std::string tier = cell(row, "tier");
    if ((tier != "compile" && tier != "remote" && tier != "cache") || row.contains("not_kept")) continue;
    if (!kept.contains(cell(row, "kernel"))) {
      row["not_kept"] = fmt::format(
          "removed again, as the cache holds {} at most; REGARD_CACHE_BYTES sets how much", bound);
    }
  }
}

}  // namespace

Answer prebuild_verb(const Request& request) {
  check_where_from(request);
  const std::vector<std::string> kernels = kernels_to_prepare(request);
  std::vector<Json> rows = prepare_all(kernels, jobs_of(request));
  mark_evicted(rows);
  int compiled = 0, fetched = 0, failed = 0, flawed = 0, not_kept = 0;
  double slowest = 0;
  std::string text, why_not_kept;
  for (const Json& row : rows) {
    const std::string flaws = cell(row, "flaws"), failure = cell(row, "error");
    failed += !failure.empty();
    flawed += !flaws.empty();
    if (const std::string why = cell(row, "not_kept"); !why.empty()) {
      ++not_kept;
      why_not_kept = why;
    }
    fetched += cell(row, "tier") == "remote";
    if (cell(row, "tier") == "compile") {
      ++compiled;
      slowest = std::max(slowest, row["seconds"].get<double>());
    }
    if (!failure.empty() || !flaws.empty()) {
      text += fmt::format("{}: {}\n", cell(row, "kernel"), failure.empty() ? flaws : failure);
    }
  }
  const ExitCode code = failed > 0 || not_kept > 0     ? exit_refused
                        : request.strict && flawed > 0 ? exit_check_failed
                                                       : exit_ok;
  if (request.json) return {json_text(Json(rows), 2) + "\n", code};
  text += fmt::format(
      "{} kernels: {} compiled (the slowest in {:.1f} s){}, {} there before, {} failed, {} flagged{}\n",
      kernels.size(), compiled, slowest, fetched == 0 ? "" : fmt::format(", {} fetched", fetched),
      std::ssize(rows) - compiled - fetched - failed, failed, flawed,
      not_kept == 0 ? "" : fmt::format(", {} not kept: {}", not_kept, why_not_kept));
  return {text, code};
}

}  // namespace regard::cli
