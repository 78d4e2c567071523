// regard report: one page about this machine, its kernels, and what files of measurements and checks say.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "cli/chart.h"
#include "cli/held_signals.h"
#include "cli/html.h"
#include "cli/json_text.h"
#include "cli/new_file.h"
#include "cli/report_rows.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {
namespace {

using Json = nlohmann::json;
using Table = std::vector<std::vector<std::string>>;

std::string figure(double value) {
  return fmt::format("{:.4g}", value);
}

std::string section(const char* title, const std::string& body) {
  return fmt::format("<h2>{}</h2>\n{}", title, body);
}

std::string machine_section(const Json& info) {
  const Json& machine = info.at("machine");
  Table rows = {{"", ""},
                {"Regard", cell(info, "version")},
                {"CPU", cell(machine, "cpu")},
                {"cores", cell(machine, "cores")},
                {"threads", cell(machine, "threads")},
                {"best CPU target", cell(info, "target")}};
  for (const Json& gpu : info.at("gpus"))
    rows.push_back(
        {"GPU " + cell(gpu, "device"), fmt::format("{} ({})", cell(gpu, "name"), cell(gpu, "chip"))});
  std::vector<std::string> here;
  for (const Json& target : info.at("targets"))
    if (target.at("runs_here") == true && target.at("kernels") == true) here.push_back(cell(target, "name"));
  rows.push_back({"targets that run here", fmt::format("{}", fmt::join(here, ", "))});
  return section("Machine", html_table(rows));
}

/// How many kernels of each target come from each tier.
std::string kernels_section(const Json& kernels) {
  std::map<std::string, std::map<std::string, int>> counts;
  std::set<std::string> tiers;
  for (const Json& kernel : kernels) {
    ++counts[cell(kernel, "target")][cell(kernel, "tier")];
    tiers.insert(cell(kernel, "tier"));
  }
  if (counts.empty()) return "";
  Table rows = {{"target"}};
  rows[0].insert(rows[0].end(), tiers.begin(), tiers.end());
  for (const auto& [target, of_target] : counts) {
    std::vector<std::string>& row = rows.emplace_back(std::vector{target});
    for (const std::string& tier : tiers) {
      const auto found = of_target.find(tier);
      row.push_back(found == of_target.end() ? "" : std::to_string(found->second));
    }
  }
  return section("Kernels by tier", html_table(rows));
}

std::string counters_section(const std::map<std::string, std::int64_t>& counters) {
  if (counters.empty()) return "";
  Table rows = {{"counter", "of all runs"}};
  for (const auto& [name, count] : counters) rows.push_back({name, std::to_string(count)});
  return section("Counters", html_table(rows));
}

/// A problem's key length, and its text without it: what a curve keeps equal.
struct Family {
  std::string words;
  double length = 0;
};
/// Where there are as many queries as keys, benchmarks take fewer sequences and heads of longer ones; where
/// there are few, as in decoding, their numbers belong to the family.
Family family_of(const std::string& problem) {
  static constexpr std::string_view sizes[] = {"b", "h", "hq", "hk", "s", "sq", "sk", "tq", "tk"};
  std::map<std::string_view, double> size = {{"b", 1}, {"hq", 1}, {"hk", 1}};
  Family family;
  for (const std::string_view word : split(problem, " ")) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals),
                           digits = word.substr(std::min(equals + 1, word.size()));
    if (std::ranges::find(sizes, name) == std::end(sizes))
      family.words += (family.words.empty() ? "" : " ") + std::string(word);
    else
      std::from_chars(digits.data(), digits.data() + digits.size(), size[name]);
  }
  if (size.contains("s")) size["sq"] = size["sk"] = size["s"];
  if (size.contains("h")) size["hq"] = size["hk"] = size["h"];
  family.length = size["sk"];
  if (size["sq"] != size["sk"])
    family.words += fmt::format(" b={} hq={} hk={} sq={}", size["b"], size["hq"], size["hk"], size["sq"]);
  else if (size["hq"] != size["hk"])
    family.words += fmt::format(", {} query heads for each of K and V", size["hq"] / size["hk"]);
  return family;
}

/// "cpu-avx512 cpu_forward": what tells several measurements of one problem apart.
std::string kernel_name(const Measured& row) {
  const std::vector<std::string_view> words = split(row.kernel, " ");
  return words.size() < 2 ? row.target : fmt::format("{} {}", words[0], words[1]);
}

/// The family's words, after what was measured (such as forward and backward of a forward problem) unless
/// that is the problem's pass.
std::string title_of(const Measured& row, const Family& family) {
  const bool is_pass = row.measure.empty() || family.words.starts_with(row.measure + " ");
  return is_pass ? family.words : fmt::format("{}: {}", row.measure, family.words);
}

/// One chart for each family of problems that was measured at several lengths.
std::string charts(const std::vector<Measured>& measured) {
  std::map<std::string, std::vector<std::pair<double, const Measured*>>> families;
  for (const Measured& row : measured) {
    const Family family = family_of(row.problem);
    if (family.length > 0 && !row.gflops.empty())
      families[title_of(row, family) + "\n" + row.machine].emplace_back(family.length, &row);
  }
  std::string html;
  for (const auto& [name, rows] : families) {
    std::set<double> lengths;
    for (const auto& [length, row] : rows) lengths.insert(length);
    if (lengths.size() < 2) continue;
    const bool several = lengths.size() < rows.size();
    std::map<std::string, Curve> curves;
    for (const auto& [length, row] : rows) {
      for (const auto& [contestant, gflops] : row->gflops) {
        const std::string curve = contestant == "regard" && several ? kernel_name(*row) : contestant;
        curves[curve].name = curve;
        curves[curve].points.emplace_back(length, gflops);
      }
    }
    std::vector<Curve> drawn;
    for (auto& [curve, points] : curves) drawn.push_back(std::move(points));
    const auto parts = split(name, "\n");
    html += fmt::format("<h3>{}</h3>\n<p class=\"note\">{}</p>\n{}", escaped(parts[0]), escaped(parts[1]),
                        line_chart("length of the keys", "GFLOP/s", std::move(drawn)));
  }
  return html;
}

std::string measured_section(const std::vector<Measured>& measured) {
  if (measured.empty()) return "";
  std::set<std::string> contestants, ceilings;
  for (const Measured& row : measured) {
    for (const auto& [name, gflops] : row.gflops)
      if (name != "regard") contestants.insert(name);
    for (const auto& [name, share] : row.shares) ceilings.insert(name);
  }
  Table rows = {{"measure", "problem", "machine", "target", "ms", "GFLOP/s"}};
  for (const std::string& name : contestants) rows[0].push_back(name + " GFLOP/s");
  for (const std::string& name : ceilings) rows[0].push_back("% of " + name);
  for (const Measured& row : measured) {
    const auto among = [](const std::map<std::string, double>& numbers, const std::string& name,
                          double factor) {
      const auto found = numbers.find(name);
      return found == numbers.end() ? std::string() : figure(found->second * factor);
    };
    std::vector<std::string>& cells =
        rows.emplace_back(std::vector{row.measure, row.problem, row.machine, row.target});
    cells.push_back(row.refused.empty() ? figure(row.regard_ms) : "refused: " + row.refused);
    cells.push_back(among(row.gflops, "regard", 1));
    for (const std::string& name : contestants) cells.push_back(among(row.gflops, name, 1));
    for (const std::string& name : ceilings) cells.push_back(among(row.shares, name, 100));
  }
  return section("Measurements", charts(measured) + html_table(rows));
}

std::string checked_section(const std::vector<Checked>& checked) {
  if (checked.empty()) return "";
  Table rows = {
      {"problem", "by", "output", "largest error", "tolerance there", "worst part of a tolerance", ""}};
  std::vector<Bar> bars;
  for (const Checked& row : checked) {
    rows.push_back({row.problem, row.source, row.output, figure(row.max_absolute), figure(row.tolerance),
                    figure(row.worst), row.ok ? "ok" : "WRONG"});
    const std::size_t number = bars.size() + 1;
    bars.push_back({fmt::format("{}. {}, {}", number, row.output, row.source), row.worst});
  }
  return section("Error against the tolerance of the fp64 oracle",
                 bar_chart("tolerance", 1, bars) + html_table(rows));
}

std::string reruns_section(const std::vector<Rerun>& reruns) {
  if (reruns.empty()) return "";
  Table rows = {{"problem", "saved on", "rerun on", "verdict", "elements with other bits",
                 "outside the bound", "bits may differ"}};
  for (const Rerun& row : reruns) {
    rows.push_back({row.problem, row.saved_on, row.target, row.verdict, std::to_string(row.different),
                    std::to_string(row.outside), row.why});
  }
  return section("Saved calls that were run again", html_table(rows));
}

std::string tuned_section(const std::vector<Tuned>& tuned) {
  if (tuned.empty()) return "";
  Table rows = {
      {"problem", "on", "candidate", "ms", "compared with", "its ms", "times as fast", "measured again"}};
  for (const Tuned& row : tuned) {
    const bool both = row.ms > 0 && row.beside_ms > 0;
    rows.push_back({row.problem, row.where, row.candidate, row.ms > 0 ? figure(row.ms) : "", row.beside,
                    row.beside_ms > 0 ? figure(row.beside_ms) : "",
                    both ? figure(row.beside_ms / row.ms) : "", row.verdict});
  }
  return section("Tuning records, compared with the cost model's choices", html_table(rows));
}

std::string compared_section(const std::vector<Compared>& compared) {
  if (compared.empty()) return "";
  Table rows = {{"problem", "compared with", "difference"}};
  for (const Compared& row : compared) rows.push_back({row.problem, row.beside, row.text});
  return section("Compared with another path (REGARD_VERIFY)", html_table(rows));
}

}  // namespace

Answer report_verb(const Request& request) {
  ReportRows rows;
  for (const std::string& path : request.paths) add_file(path, rows);
  std::string body = machine_section(json_of(regard::info())) + kernels_section(json_of(regard::list())) +
                     counters_section(rows.counters) + measured_section(rows.measured) +
                     checked_section(rows.checked) + reruns_section(rows.reruns) + tuned_section(rows.tuned) +
                     compared_section(rows.compared);
  if (rows.left_out > 0) {
    body += fmt::format("<p class=\"note\">{} other JSON object{} in the files {} left out.</p>\n",
                        rows.left_out, rows.left_out == 1 ? "" : "s", rows.left_out == 1 ? "is" : "are");
  }
  const std::string path = request.out.empty() ? "report.html" : request.out;
  const std::string page = html_page("Regard: report", body);
  const HeldSignals held;
  NewFile file(path);
  file.write(std::as_bytes(std::span(page)));
  file.publish();
  const Json answer = {{"written", path},
                       {"measured", rows.measured.size()},
                       {"checked", rows.checked.size()},
                       {"reruns", rows.reruns.size()},
                       {"tuned", rows.tuned.size()},
                       {"compared", rows.compared.size()},
                       {"left_out", rows.left_out}};
  return {request.json ? json_text(answer, 2) + "\n" : fmt::format("wrote     {}\n", printable(path))};
}

}  // namespace regard::cli
