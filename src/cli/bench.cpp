// regard bench: measures problems in turn, one JSON object per line (the format of bench/results/).
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "cli/bench_peers.h"
#include "cli/failure.h"
#include "cli/job.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "cli/requested_problems.h"
#include "cli/timing.h"
#include "cli/verbs.h"

namespace regard::cli {
namespace {

using Json = nlohmann::ordered_json;

/// One measurement: one problem on one target by one family.
struct Cell {
  std::unique_ptr<Job> job;
  std::string refusal;  ///< why there is no job
  std::string problem;
  int calls = 1;
  std::vector<double> samples;
};

/// For every problem, target and family.
std::vector<AskedCell> all_cells(const Request& request) {
  const std::vector<std::string> any = {""};
  std::vector<AskedCell> cells;
  for (const std::string& text : requested_problems(request)) {
    for (const std::string& target : request.targets.empty() ? any : request.targets) {
      for (const std::string& family : request.families.empty() ? any : request.families)
        cells.push_back({parse_problem(text), {target, family, request.threads, request.functions}});
    }
  }
  return cells;
}

/// A refusal is a cell without a time; any other failure ends the bench.
Cell make_cell(const AskedCell& asked, const Request& request) {
  const auto& [problem, where] = asked;
  Cell cell;
  cell.problem = problem.text();
  try {
    cell.job = std::make_unique<Job>(problem, request, where);
  } catch (const error& refused) {
    if (refused.status() != REGARD_REFUSED && refused.status() != REGARD_NO_KERNEL) throw;
    cell.refusal = refused.what();
    return cell;
  }
  cell.problem = cell.job->problem.text();
  cell.job->run();  // the first call touches the memory
  cell.calls = calls_per_sample(cell.job->run());
  return cell;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

Json line_of(const Cell& cell, const std::string& machine, const std::string& commit) {
  Json line = {{"problem", cell.problem},
               {"measure", cell.problem.substr(0, cell.problem.find(' '))},
               {"machine", machine},
               {"date", today()},
               {"commit", commit.empty() ? Json(nullptr) : Json(commit)}};
  if (!cell.job) {
    line["regard_ms"] = nullptr;
    line["refused"] = cell.refusal;
    return line;
  }
  const double ms = median(cell.samples);
  const Json plan = ordered_json_of(cell.job->plan.json());
  Json kernels = Json::array(), sources = Json::array();
  for (const Json& stage : plan.at("stages")) {
    kernels.push_back(stage.value("kernel", ""));
    sources.push_back(stage.value("tier", ""));
  }
  line["regard_ms"] = ms;
  line["samples_ms"] = cell.samples;
  line["gflops"] = cell.job->flops() / ms / 1e6;
  line["gbps"] = static_cast<double>(cell.job->tensors.bytes()) / ms / 1e6;
  line["peers"] = Json::object();
  line["ceilings"] = Json::object();
  line["target"] = plan.value("target", "");
  line["threads"] = plan.value("threads", 1);
  line["kernel"] = fmt::format("{}", fmt::join(kernels.get<std::vector<std::string>>(), " + "));
  line["source"] = fmt::format("{}", fmt::join(sources.get<std::vector<std::string>>(), " + "));
  line["peak_bytes"] = cell.job->bytes();
  return line;
}

}  // namespace

Answer bench_verb(const Request& request) {
  const std::vector<AskedCell> asked = all_cells(request);
  if (!request.peers.empty()) bench_peers(asked, request);
  std::vector<Cell> cells;
  for (const AskedCell& cell : asked) cells.push_back(make_cell(cell, request));
  Progress progress(cells.size() * static_cast<std::size_t>(request.rounds), "measurements");
  for (int round = 0; round < request.rounds; ++round) {
    for (Cell& cell : cells) {
      if (cell.job) cell.samples.push_back(cell.job->run(cell.calls));
      progress.step();
    }
  }
  const Json machine = ordered_json_of(regard::info()).value("machine", Json::object());
  Answer answer;
  for (const Cell& cell : cells) {
    answer.text += json_text(line_of(cell, machine.value("cpu", "unknown"), request.commit)) + "\n";
    if (!cell.job) answer.exit_code = exit_refused;
  }
  return answer;
}

}  // namespace regard::cli
