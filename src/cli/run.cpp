// regard run: one problem, computed, checked, timed, and written to files.
#include <fmt/format.h>

#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/job.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/timing.h"
#include "cli/verbs.h"

namespace regard::cli {
namespace {

using Json = nlohmann::ordered_json;

Json lengths_of(const Side& side) {
  if (!side.lengths.empty()) return side.lengths;
  Json lengths = Json::array();
  for (std::size_t i = 1; i < side.offsets.size(); ++i)
    lengths.push_back(side.offsets[i] - side.offsets[i - 1]);
  return lengths;
}

Json timing_of(const Job& job, int repeat, double first_ms) {
  const int calls = calls_per_sample(first_ms);
  std::vector<double> samples;
  for (int i = 0; i < repeat; ++i) samples.push_back(job.run(calls));
  const double middle = median(samples);
  return {{"median_ms", middle},
          {"fastest_ms", *std::ranges::min_element(samples)},
          {"samples", repeat},
          {"calls_per_sample", calls},
          {"gflops", job.flops() / middle / 1e6},
          {"gbps", static_cast<double>(job.tensors.bytes()) / middle / 1e6}};
}

/// A list of numbers; of a long list, the first ones, the last one and how many there are.
std::string numbers(const Json& list) {
  constexpr std::size_t many = 32, first = 16;
  const std::size_t shown = list.size() > many ? first : list.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ",") + json_text(list[i]);
  if (shown == list.size()) return text;
  return fmt::format("{},...,{} ({} in all)", text, json_text(list.back()), list.size());
}

std::string plan_text(const Json& plan) {
  const bool gpu = plan.contains("multiprocessors");
  const int workers = plan.value(gpu ? "multiprocessors" : "threads", 1);
  std::string text = fmt::format("plan      {} on {}, {} {}{}, workspace {}\n", plan.value("family", "?"),
                                 plan.value("target", "?"), workers, gpu ? "multiprocessor" : "thread",
                                 workers == 1 ? "" : "s", readable_bytes(plan.value("workspace_bytes", 0.0)));
  for (const Json& stage : plan.value("stages", Json::array())) {
    const std::string tier = stage.value("tier", "?");
    const std::string took = stage.contains("seconds") && stage["seconds"].get<double>() > 0
                                 ? fmt::format(", {}", readable_ms(1e3 * stage["seconds"].get<double>()))
                                 : "";
    text += fmt::format("kernel    {} ({}{})\n", stage.value("kernel", "?"), tier, took);
  }
  if (plan.contains("fallback_reason")) {
    text +=
        fmt::format("fallback  {}\n", printable(plan["fallback_reason"].get<std::string>(), Newlines::kept));
  }
  return text;
}

/// A number of the check's report; infinities come as text.
std::string figure(const Json& row, const char* key) {
  const Json& value = row.at(key);
  return value.is_number() ? fmt::format("{:.2g}", value.get<double>()) : value.get<std::string>();
}

std::string check_text(const Json& check) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [output, row] : check.at("outputs").items()) {
    const bool ok = row.at("ok").get<bool>();
    rows.push_back({"check     " + output, ok ? "ok" : "WRONG", "max error " + figure(row, "max_absolute"),
                    "relative " + figure(row, "max_relative"), "tolerance " + figure(row, "tolerance")});
    if (!ok) {
      rows.back().push_back(fmt::format("{} of {} elements are outside", row.at("wrong").get<std::int64_t>(),
                                        row.at("compared").get<std::int64_t>()));
    } else if (check.at("sampled").get<bool>()) {
      rows.back().push_back(fmt::format("{} elements sampled", row.at("compared").get<std::int64_t>()));
    }
  }
  for (const Json& output : check.at("skipped"))
    rows.push_back({"check     " + output.get<std::string>(), "skipped"});
  return table(rows);
}

std::string readable_report(const Json& report) {
  std::string text = fmt::format("problem   {}\n", report["problem"].get<std::string>());
  if (report.contains("lengths_q")) {
    text +=
        fmt::format("lengths   q {}   k {}\n", numbers(report["lengths_q"]), numbers(report["lengths_k"]));
  }
  text += plan_text(report["plan"]);
  if (!report["check"].is_null()) text += check_text(report["check"]);
  if (!report["time"].is_null()) {
    const Json& time = report["time"];
    text += fmt::format("time      {} (median of {}, fastest {})\n", readable_ms(time["median_ms"]),
                        time["samples"].get<int>(), readable_ms(time["fastest_ms"]));
    text += fmt::format("rate      {:.4g} GFLOP/s, {:.3g} GB/s\n", time["gflops"].get<double>(),
                        time["gbps"].get<double>());
  }
  for (const Json& path : report["written"])
    text += fmt::format("wrote     {}\n", printable(path.get<std::string>()));
  return text;
}

}  // namespace

Answer run_verb(const Request& request) {
  const regard::Options where{request.targets.empty() ? "" : request.targets.front(),
                              request.families.empty() ? "" : request.families.front(), request.threads,
                              request.functions};
  const Job job(parse_problem(request.words), request, where);
  if (const std::vector<std::string>& names = job.files.left_out; !names.empty()) {
    std::fprintf(stderr, "regard: %s: left out, as the problem does not read them: %s\n",
                 printable(request.in).c_str(), listed_tensors(names).c_str());
  }
  const double first_ms = job.run();
  job.fetch();

  Json report = {
      {"problem", job.problem.text()},  {"seed", request.seed},    {"plan", ordered_json_of(job.plan.json())},
      {"prepare_ms", job.prepare_ms},   {"check", nullptr},        {"time", nullptr},
      {"left_out", job.files.left_out}, {"written", Json::array()}};
  if (!job.sequences.q.offsets.empty() || !job.sequences.q.lengths.empty()) {
    report["lengths_q"] = lengths_of(job.sequences.q);
    report["lengths_k"] =
        job.sequences.cache.keys.empty() ? lengths_of(job.sequences.k) : Json(job.sequences.cache.keys);
  }
  if (!request.out.empty()) {
    report["written"] = save_arrays(request.out, outputs_of(job.problem, job.tensors, request.convert));
  }
  if (request.check) {
    const Waiting waiting("checking the results with the fp64 oracle");
    report["check"] = ordered_json_of(check(job.problem, job.tensors.arguments()));
  }
  if (request.repeat > 0) report["time"] = timing_of(job, request.repeat, first_ms);
  report["counters"] = ordered_json_of(regard::info()).at("counters");

  const bool wrong = request.check && !report["check"].at("ok").get<bool>();
  return {request.json ? json_text(report, 2) + "\n" : readable_report(report),
          wrong ? exit_check_failed : exit_ok};
}

}  // namespace regard::cli
