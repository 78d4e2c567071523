#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/plan.h"

namespace regard {

std::string to_json(const Plan& plan) {
  nlohmann::json stages = nlohmann::json::array();
  for (const Stage& stage : plan.stages) {
    stages.push_back(
        {{"kernel", print(stage.kernel)}, {"grid", stage.grid}, {"scratch_bytes", stage.scratch_bytes}});
  }
  return nlohmann::json{{"problem", print(plan.problem)},
                        {"target", plan.target->name},
                        {"family", word(plan.family)},
                        {"threads", plan.threads},
                        {"splits", plan.splits},
                        {"split_keys", plan.split_keys},
                        {"workspace_bytes", plan.workspace.total},
                        {"cost_seconds", plan.cost_seconds},
                        {"stages", stages}}
      .dump();
}

std::string to_json(const Explanation& explanation) {
  nlohmann::json verdicts = nlohmann::json::array();
  for (const Verdict& verdict : explanation.verdicts) {
    verdicts.push_back({{"candidate", verdict.candidate},
                        {"accepted", verdict.accepted},
                        {"chosen", verdict.chosen},
                        {"rule", verdict.rule},
                        {"reason", verdict.reason}});
  }
  nlohmann::json json{
      {"problem", explanation.problem}, {"target", explanation.target}, {"verdicts", verdicts}};
  if (!explanation.refusal.empty()) json["refusal"] = explanation.refusal;
  return json.dump();
}

std::string to_text(const Explanation& explanation) {
  std::string text = fmt::format("{}\non {}\n", explanation.problem, explanation.target);
  for (const Verdict& verdict : explanation.verdicts) {
    const char* mark = verdict.chosen ? "chosen  " : verdict.accepted ? "accepted" : "refused ";
    text += fmt::format("  {} {}: {}", mark, verdict.candidate, verdict.reason);
    text += verdict.rule.empty() ? "\n" : fmt::format(" [{}]\n", verdict.rule);
  }
  if (!explanation.refusal.empty()) text += explanation.refusal + "\n";
  return text;
}

}  // namespace regard
