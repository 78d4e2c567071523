// regard rerun: a call that REGARD_SAVE_CALLS saved, computed again and compared.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "regard/regard.hpp"

namespace regard::cli {
namespace {

using Json = nlohmann::ordered_json;

/// "[0,3,1,7]: 0.25 saved, nan now"
std::string first_of(const Json& row) {
  if (!row.contains("first")) return "";
  const Json& first = row["first"];
  const auto number = [&](const char* key) {
    return first.at(key).is_string() ? first[key].get<std::string>()
                                     : fmt::format("{:.9g}", first[key].get<double>());
  };
  return fmt::format("first at {}: {} saved, {} now", json_text(first.at("index")), number("saved"),
                     number("rerun"));
}

std::string count(const Json& row, const char* key, const char* words) {
  const std::int64_t many = row.at(key).get<std::int64_t>();
  return many == 0 ? "" : fmt::format("{} {}", many, words);
}

/// What the verdict means, in a sentence.
std::string meaning(const Json& report) {
  const std::string verdict = report.at("verdict"), why = report.value("bits_may_differ", "");
  if (verdict == "same_bits") return "the same bits";
  if (verdict == "same_error") return "the same error: " + report.at("error").get<std::string>();
  const std::string differs = why.empty() ? "" : fmt::format(" (bits may differ: {})", why);
  if (verdict == "within_bound") return "within the bound of another order of sums" + differs;
  const std::string saved_error = report.at("saved").value("error", "");
  if (saved_error.empty()) return "different" + differs;
  return report.contains("error") ? "another error: " + report["error"].get<std::string>()
                                  : "no error now, where the saved call failed (" + saved_error + ")";
}

std::string checks(const Json& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [which, check] : report.at("oracle").items()) {
    const std::string name = "oracle    " + which;
    if (check.contains("error")) {
      rows.push_back({name, printable(check["error"].get<std::string>())});
      continue;
    }
    for (const auto& [output, row] : check.at("outputs").items()) {
      const std::int64_t wrong = row.at("wrong").get<std::int64_t>();
      rows.push_back({name, output,
                      wrong == 0 ? "ok"
                                 : fmt::format("WRONG: {} of {} elements are outside", wrong,
                                               row.at("compared").get<std::int64_t>())});
    }
  }
  return table(rows);
}

std::string readable_report(const Json& report) {
  const Json& saved = report.at("saved");
  std::string text = fmt::format("problem   {}\n", report.at("problem").get<std::string>());
  text += fmt::format("saved     {} on {}, {}, Regard {}\n", printable(cell(saved, "why")),
                      printable(cell(saved, "target")), printable(cell(saved, "machine")),
                      printable(cell(saved, "version")));
  text += fmt::format("rerun     on {}\n", report.at("target").get<std::string>());
  for (const Json& kernel : report.at("kernels"))
    text += fmt::format("kernel    {}\n", kernel.get<std::string>());
  std::vector<std::vector<std::string>> rows;
  for (const auto& [output, row] : report.at("outputs").items()) {
    rows.push_back({"output    " + output,
                    row.at("different") == 0 ? "same" : count(row, "different", "other bits"),
                    count(row, "outside", "outside the bound"), count(row, "not_written", "not written"),
                    first_of(row)});
  }
  text += table(rows);
  if (report.contains("oracle")) text += checks(report);
  return text + fmt::format("verdict   {}\n", printable(meaning(report)));
}

bool is_right(const Json& check) {
  return !check.contains("ok") || check["ok"].get<bool>();
}

}  // namespace

Answer rerun_verb(const Request& request) {
  const regard::Options where{request.targets.empty() ? "" : request.targets.front(),
                              request.families.empty() ? "" : request.families.front(), request.threads,
                              request.functions};
  Json report;
  {
    const Waiting waiting("running the saved call again");
    report = ordered_json_of(rerun(request.paths.at(0), where, request.oracle));
  }
  const bool same = report.at("verdict") != "different";
  const bool right = !report.contains("oracle") || is_right(report["oracle"].at("rerun"));
  return {request.json ? json_text(report, 2) + "\n" : readable_report(report),
          same && right ? exit_ok : exit_check_failed};
}

}  // namespace regard::cli
