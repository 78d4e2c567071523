// regard tune: measures the candidates of problems, and writes the fastest into a file of tuning records.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files.h"
#include "base/parallel_for.h"
#include "base/text.h"
#include "cli/candidates.h"
#include "cli/contest.h"
#include "cli/failure.h"
#include "cli/held_signals.h"
#include "cli/json_text.h"
#include "cli/manifest_problems.h"
#include "cli/new_file.h"
#include "cli/progress.h"
#include "cli/requested_problems.h"
#include "cli/text.h"
#include "cli/timing.h"
#include "cli/verbs.h"
#include "plan/record_line.h"

namespace regard::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t most_bytes = 64 << 20;

double now() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// A problem to measure, and where.
struct Asked {
  std::string problem;
  regard::Options where;
};

/// The lines of REGARD_RECORD's file, "target | problem", for the requested targets; if none is requested,
/// all lines.
void add_recorded(const Request& request, std::vector<Asked>& asked) {
  const std::string text = value_of(read_file(request.record, most_bytes, Links::followed), request.record);
  for (const std::string_view line : split(text, "\n")) {
    const std::size_t bar = line.find(bar_of_record);
    if (line.empty() || line.starts_with('#') || line.ends_with(end_of_cut_line)) continue;
    if (bar == std::string_view::npos)
      fail_with(fmt::format("{}: {} is not a line that REGARD_RECORD writes", printable(request.record),
                            in_quotes(line)));
    const std::string target(line.substr(0, bar));
    if (!request.targets.empty() && std::ranges::find(request.targets, target) == request.targets.end())
      continue;
    asked.push_back({std::string(line.substr(bar + bar_of_record.size())), {target, {}, request.threads}});
  }
}

std::vector<Asked> all_asked(const Request& request) {
  std::vector<Asked> asked;
  const std::vector<std::string> any = {""};
  for (const std::string& problem : requested_problems(request))
    for (const std::string& target : request.targets.empty() ? any : request.targets)
      asked.push_back({problem, {target, {}, request.threads}});
  if (!request.record.empty()) add_recorded(request, asked);
  if (!request.manifest.empty())
    for (const auto& [problem, target] : problems_of_manifest(request.manifest, request.targets))
      asked.push_back({problem, {target, {}, request.threads}});
  return asked;
}

/// Compiles the kernels of all candidates, many at a time, so that measuring does not wait for compiles. What
/// fails, or is not done by `end`, is compiled, and reported, when it is measured.
void prepare_kernels(const std::vector<Asked>& asked, double end) {
  if (asked.size() < 2) return;
  const auto cores = json_of(regard::info())["machine"]["cores"].get<std::size_t>();
  const auto over = [end] { return HeldSignals::arrived() || now() >= end; };
  Progress progress(asked.size(), "problems prepared");
  parallel_for(asked.size(), cores, [&](std::size_t i) {
    const auto& [text, where] = asked[i];
    try {
      const Problem problem = parse_problem(text);
      for (const std::string& name : worth_measuring(explained(problem, where)))
        if (!over()) Plan(problem, {where.target, name, where.threads}).prepare();
    } catch (const error&) {
    }
    progress.step();
  });
}

/// The problems that one record is for: their bucket, and where they run.
std::string key_of(const std::string& problem, const std::string& target, const std::string& device,
                   std::int64_t threads) {
  const Json explanation = explained(Problem(problem), {.target = target});
  return fmt::format("{} on {}, {}, {}", explanation.at("bucket").get<std::string>(), target, device,
                     threads);
}
std::string key_of(const Json& record) {
  return key_of(record.at("problem"), record.at("target"), record.at("device"), record.at("threads"));
}

/// The records of a file in its order, each with the key of what it is for.
class Records {
 public:
  explicit Records(std::string path) : path_(std::move(path)) {
    bool missing = false;
    const Result<std::string> read = read_file(path_, most_bytes, Links::followed, &missing);
    if (missing) return;
    const std::string text = value_of(read, path_);
    regard::use_tuning(path_);  // fails for a file of anything else, which is then not replaced
    regard::use_tuning("");
    for (const std::string_view line : split(text, "\n"))
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) put(std::string(line));
  }

  void put(const std::string& line) {
    const std::string key = key_of(json_of(line));
    std::erase_if(lines_, [&](const auto& other) { return other.first == key; });
    lines_.emplace_back(key, line);
  }

  void write() const {
    std::string text;
    for (const auto& [key, line] : lines_) text += line + "\n";
    NewFile file(path_);
    file.write(std::as_bytes(std::span(text)));
    file.publish();
  }

  std::vector<Json> all() const {
    std::vector<Json> records;
    for (const auto& [key, line] : lines_) records.push_back(json_of(line));
    return records;
  }

 private:
  std::string path_;
  std::vector<std::pair<std::string, std::string>> lines_;
};

Outcome measured(Candidates& candidates, double budget) {
  return fastest_of(candidates.size(), {.measure = [&](std::size_t i) { return candidates.measure(i); },
                                        .seconds = now,
                                        .stop = [] { return HeldSignals::arrived(); },
                                        .budget = budget});
}

/// The record's line; nothing if the user ended the measurement.
std::optional<std::string> tuned(const Asked& asked, const Request& request, double budget) {
  const Problem problem = parse_problem(asked.problem);
  const double start = now();
  Candidates candidates(problem, request, asked.where);
  const Outcome outcome = measured(candidates, std::max(budget - (now() - start), 0.0));
  if (!outcome.decided) return {};
  std::vector<Candidate> times{{candidates.name(outcome.best), median(outcome.samples[outcome.best]) / 1e3}};
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (i != outcome.best && !outcome.samples[i].empty())
      times.push_back({candidates.name(i), median(outcome.samples[i]) / 1e3});
  return regard::tuning_record(problem, asked.where, times);
}

double time_of(const Json& record, const char* which) {
  const auto found = record.at("times").find(record.at(which).get<std::string>());
  return found == record.at("times").end() ? 0 : found->get<double>();
}

/// The candidate, how much faster it is than the cost model's, and the problem.
std::vector<std::string> row_of(const Json& record) {
  const double ms = time_of(record, "candidate"), by_cost = time_of(record, "by_cost");
  const bool same = record.at("candidate") == record.at("by_cost");
  return {record.at("problem"), record.at("candidate"), readable_ms(ms),
          same ? "the cost model's choice"
               : fmt::format("{:.2f} x as fast as the cost model's: {}", by_cost / ms, readable_ms(by_cost))};
}

Answer tune(const Request& request) {
  if (request.out.empty()) fail_with("--out is required: the file of tuning records to write, or to add to");
  Records records(request.out);
  const std::vector<Asked> asked = all_asked(request);
  const double end = now() + request.seconds;
  std::vector<std::vector<std::string>> rows{{"problem", "candidate", "time", ""}};
  std::map<std::string, bool> seen;
  std::string refused;
  Answer answer;
  const HeldSignals held;
  prepare_kernels(asked, end);
  Progress progress(asked.size(), "problems");
  std::size_t left = asked.size(), done = 0, not_begun = 0;
  for (const Asked& one : asked) {
    const double budget = std::max(end - now(), 0.0) / static_cast<double>(left--);
    const Json explanation = explained(parse_problem(one.problem), one.where);
    const std::string bucket = explanation.at("bucket").get<std::string>() + explanation.at("target").dump();
    if (done > 0 && now() >= end) {
      ++not_begun;
    } else if (!std::exchange(seen[bucket], true)) {
      try {
        if (explanation.value("chosen_by", "") == "order")
          throw error(REGARD_REFUSED,
                      "a batch_invariant problem gets the first candidate of the target's table");
        if (const std::optional<std::string> line = tuned(one, request, budget)) {
          records.put(*line);
          records.write();
          rows.push_back(row_of(json_of(*line)));
          ++done;
        }
      } catch (const error& failure) {
        const bool none = failure.status() == REGARD_REFUSED || failure.status() == REGARD_NO_KERNEL ||
                          failure.status() == REGARD_NO_MEMORY;
        if (!none && failure.status() != REGARD_INTERRUPTED) throw;
        if (none) refused += fmt::format("{}: {}\n", one.problem, printable(failure.what()));
        if (none) answer.exit_code = exit_refused;
      }
    }
    if (HeldSignals::arrived()) {
      std::fputs(fmt::format("\nregard: interrupted; {} of {} problems were measured and are in {}\n", done,
                             asked.size(), printable(request.out))
                     .c_str(),
                 stderr);
      return answer;
    }
    progress.step();
  }
  if (not_begun > 0)
    std::fputs(
        fmt::format("regard: time is up: {} problems were not measured; give more --seconds\n", not_begun)
            .c_str(),
        stderr);
  answer.text = request.json ? json_text(Json(records.all()), 2) + "\n" : table(rows) + refused;
  return answer;
}

/// A record measured again.
Json checked(const Json& record, const Request& request, double budget) {
  const regard::Options where{record.at("target"), {}, record.at("threads").get<std::int32_t>()};
  const Problem problem(record.at("problem").get<std::string>());
  Json row = {{"problem", record.at("problem")}, {"candidate", record.at("candidate")}};
  const Json explanation = explained(problem, where);
  if (explanation.value("chosen_by", "") != "record") {
    row["verdict"] = "not used";
    row["why"] = explanation.contains("notes") ? explanation["notes"][0] : Json("another record is used");
    return row;
  }
  std::vector<std::string> names{record.at("candidate")};
  for (const auto& [name, ms] : record.at("times").items())
    if (name != names.front()) names.push_back(name);
  Candidates candidates(problem, request, where, names);
  const Outcome outcome = measured(candidates, budget);
  if (!outcome.decided) {
    row["verdict"] = "not measured";
    return row;
  }
  row["ms"] = median(outcome.samples[0]);
  row["recorded_ms"] = time_of(record, "candidate");
  row["verdict"] = outcome.best == 0 ? "holds" : "changed";
  if (outcome.best != 0) {
    row["faster"] = candidates.name(outcome.best);
    row["faster_ms"] = median(outcome.samples[outcome.best]);
  }
  return row;
}

Answer check(const Request& request) {
  regard::use_tuning(request.check_file);
  const std::vector<Json> records = Records(request.check_file).all();
  regard::use_tuning(request.check_file);
  const double end = now() + request.seconds;
  std::vector<Json> rows;
  Answer answer;
  const HeldSignals held;
  Progress progress(records.size(), "records");
  for (std::size_t i = 0; i < records.size() && !HeldSignals::arrived(); ++i) {
    rows.push_back(
        checked(records[i], request, std::max(end - now(), 0.0) / static_cast<double>(records.size() - i)));
    if (rows.back()["verdict"] == "changed") answer.exit_code = exit_check_failed;
    progress.step();
  }
  if (request.json) {
    answer.text = json_text(Json(rows), 2) + "\n";
    return answer;
  }
  for (const Json& row : rows) {
    const std::string verdict = cell(row, "verdict");
    std::string what = verdict == "not used" ? ": " + cell(row, "why") : "";
    if (row.contains("ms"))
      what = fmt::format(": {} with {}, recorded {}", readable_ms(row["ms"]), cell(row, "candidate"),
                         readable_ms(row["recorded_ms"]));
    if (row.contains("faster"))
      what += fmt::format("; now {} takes {}", cell(row, "faster"), readable_ms(row["faster_ms"]));
    answer.text += fmt::format("{}: {}{}\n", verdict, cell(row, "problem"), what);
  }
  return answer;
}

}  // namespace

Answer tune_verb(const Request& request) {
  const bool asks = !request.words.empty() || !request.problems.empty() || !request.record.empty() ||
                    !request.manifest.empty();
  if (request.check_file.empty()) return tune(request);
  if (asks || !request.out.empty())
    fail_with("--check measures the records of a file, and takes no problems and no --out");
  return check(request);
}

}  // namespace regard::cli
