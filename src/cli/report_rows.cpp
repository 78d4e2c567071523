#include "cli/report_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "base/files.h"
#include "base/text.h"
#include "cli/failure.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t most_bytes = 256 << 20;

/// Infinities are text in reports.
double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::numeric_limits<double>::quiet_NaN();
  const std::string text = value.get<std::string>();
  if (text == "inf") return INFINITY;
  return text == "-inf" ? -INFINITY : std::numeric_limits<double>::quiet_NaN();
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// Its numbers by name; a contestant without a number did not take part.
std::map<std::string, double> numbers_of(const Json& object, const char* key) {
  std::map<std::string, double> numbers;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return numbers;
  for (const auto& [name, value] : found->items())
    if (value.is_number()) numbers[name] = value.get<double>();
  return numbers;
}

bool add_measured(const Json& line, ReportRows& rows) {
  if (!line.contains("regard_ms") || !line.contains("problem")) return false;
  Measured row{.problem = text_of(line, "problem"),
               .measure = text_of(line, "measure"),
               .machine = text_of(line, "machine"),
               .target = text_of(line, "target"),
               .kernel = text_of(line, "kernel"),
               .refused = text_of(line, "refused")};
  if (line["regard_ms"].is_number()) {
    row.regard_ms = line["regard_ms"].get<double>();
    // Lines of `regard bench` have the rate, those of the benchmarks the operations.
    const double gflops = line.contains("gflops")  ? number_of(line["gflops"])
                          : line.contains("flops") ? number_of(line["flops"]) / row.regard_ms / 1e6
                                                   : std::numeric_limits<double>::quiet_NaN();
    if (std::isfinite(gflops)) {
      row.gflops["regard"] = gflops;
      for (const auto& [name, ms] : numbers_of(line, "peers")) row.gflops[name] = gflops * row.regard_ms / ms;
    }
    for (const auto& [name, most] : numbers_of(line, "ceilings")) {
      if (name.ends_with("_gflops") && std::isfinite(gflops)) row.shares[name] = gflops / most;
      if (name.ends_with("_gigabytes_per_s") && line.contains("gbps"))
        row.shares[name] = number_of(line["gbps"]) / most;
    }
  }
  rows.measured.push_back(std::move(row));
  return true;
}

void add_checks(const Json& check, const std::string& problem, const std::string& source, ReportRows& rows) {
  const auto outputs = check.find("outputs");
  if (outputs == check.end() || !outputs->is_object()) return;
  for (const auto& [output, row] : outputs->items()) {
    rows.checked.push_back({problem, source, output, number_of(row.at("max_absolute")),
                            number_of(row.at("tolerance")), number_of(row.at("worst")),
                            row.at("ok").get<bool>()});
  }
}

bool add_run(const Json& report, ReportRows& rows) {
  if (!report.contains("check") || !report.contains("plan")) return false;
  if (report["check"].is_object())
    add_checks(report["check"], text_of(report, "problem"), "run on " + text_of(report["plan"], "target"),
               rows);
  for (const auto& [name, count] : numbers_of(report, "counters"))
    rows.counters[name] += static_cast<std::int64_t>(count);
  return true;
}

bool add_rerun(const Json& report, ReportRows& rows) {
  if (!report.contains("verdict") || !report.contains("saved")) return false;
  const Json& saved = report["saved"];
  Rerun row{.problem = text_of(report, "problem"),
            .saved_on = text_of(saved, "target"),
            .target = text_of(report, "target"),
            .verdict = text_of(report, "verdict"),
            .why = text_of(report, "bits_may_differ")};
  for (const auto& [name, output] : report.at("outputs").items()) {
    row.different += output.at("different").get<std::int64_t>();
    row.outside += output.at("outside").get<std::int64_t>();
  }
  if (report.contains("oracle")) {
    for (const auto& [which, check] : report["oracle"].items())
      add_checks(check, row.problem, which == "saved" ? "saved on " + row.saved_on : "rerun on " + row.target,
                 rows);
  }
  rows.reruns.push_back(std::move(row));
  return true;
}

bool add_tuned(const Json& object, ReportRows& rows) {
  if (!object.contains("candidate") || !object.contains("problem")) return false;
  Tuned row{.problem = text_of(object, "problem"), .candidate = text_of(object, "candidate")};
  if (object.contains("tuning")) {
    const std::int64_t threads = object.at("threads").get<std::int64_t>();
    row.where = fmt::format("{}, {}{}", text_of(object, "target"), text_of(object, "device"),
                            threads == 0 ? "" : fmt::format(", {} threads", threads));
    const std::map<std::string, double> times = numbers_of(object, "times");
    row.beside = text_of(object, "by_cost");
    if (const auto found = times.find(row.candidate); found != times.end()) row.ms = found->second;
    if (const auto found = times.find(row.beside); found != times.end()) row.beside_ms = found->second;
  } else {
    row.verdict = object.at("verdict").get<std::string>();
    row.beside = text_of(object, "faster");
    if (object.contains("ms")) row.ms = number_of(object["ms"]);
    if (object.contains("faster_ms")) row.beside_ms = number_of(object["faster_ms"]);
  }
  rows.tuned.push_back(std::move(row));
  return true;
}

bool add_json(const Json& object, ReportRows& rows) {
  if (object.is_array()) {
    bool any = false;
    for (const Json& element : object) any |= add_json(element, rows);
    return any;
  }
  if (!object.is_object()) return false;
  if (add_measured(object, rows) || add_run(object, rows) || add_rerun(object, rows) ||
      add_tuned(object, rows))
    return true;
  ++rows.left_out;
  return false;
}

/// "regard verify: fwd ... beside oracle: {...}", or the differences from another path in words.
bool add_verified(std::string_view line, ReportRows& rows) {
  constexpr std::string_view start = "regard verify: ", beside = " beside ";
  if (!line.starts_with(start)) return false;
  line.remove_prefix(start.size());
  const std::size_t at = line.find(beside), colon = line.find(": ", at);
  if (at == std::string_view::npos || colon == std::string_view::npos) return false;
  const std::string problem(line.substr(0, at)),
      path(line.substr(at + beside.size(), colon - at - beside.size()));
  const std::string_view rest = line.substr(colon + 2);
  const Json check = rest.starts_with('{') ? Json::parse(rest, nullptr, false) : Json();
  if (check.is_object()) {
    add_checks(check, problem, "REGARD_VERIFY", rows);
  } else {
    rows.compared.push_back({problem, path, std::string(rest)});
  }
  return true;
}

}  // namespace

void add_file(const std::string& path, ReportRows& rows) {
  const std::string text = value_of(read_file(path, most_bytes, Links::followed), path);
  bool any = false;
  try {
    const Json whole = Json::parse(text, nullptr, false);
    if (!whole.is_discarded()) {
      any = add_json(whole, rows);
    } else {
      for (const std::string_view line : split(text, "\n")) {
        if (line.starts_with('{')) any |= add_json(Json::parse(line, nullptr, false), rows);
        any |= add_verified(line, rows);
      }
    }
  } catch (const Json::exception&) {
    fail_with(printable(path) + ": a report in it lacks a member that all of its kind have");
  }
  if (any) return;
  fail_with(
      printable(path) +
      ": it has nothing that `regard bench`, `regard run --json`, `regard rerun --json`, `regard tune` or "
      "REGARD_VERIFY writes");
}

}  // namespace regard::cli
