// Plans and explanations for people and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "plan/kernel.h"

namespace regard {

namespace {

std::vector<ScheduleNumber> schedule_numbers(const Stage& stage) {
  const auto numbers = stage.kernel->schedule.numbers;
  return numbers == nullptr ? std::vector<ScheduleNumber>{} : numbers(stage.schedule);
}

void write(JsonWriter& json, const Stage& stage, const PlanFacts::OfStage& facts) {
  json.object([&] {
    json.member("grid", stage.grid);
    json.member("kernel", print(stage.key));
    if (!facts.missed.empty()) json.member("missed", facts.missed);
    if (!facts.resources.empty()) json.member("resources", [&] { json.raw(facts.resources); });
    json.member("schedule", [&] {
      json.object([&] {
        for (const auto& [name, value] : schedule_numbers(stage)) json.member(name, value);
      });
    });
    json.member("scratch_bytes", stage.scratch_bytes);
    if (facts.seconds) json.member("seconds", *facts.seconds);
    json.member("shared_bytes", stage.shared_bytes);
    if (!facts.tier.empty()) json.member("tier", facts.tier);
  });
}

void write(JsonWriter& json, const Plan& plan, const PlanFacts& facts) {
  const bool cpu = plan.target->on_cpu();
  json.object([&] {
    json.member("cost_seconds", plan.cost_seconds);
    if (!facts.fallback_reason.empty()) json.member("fallback_reason", facts.fallback_reason);
    json.member("family", word(plan.family));
    if (!cpu) json.member("multiprocessors", plan.workers);
    json.member("problem", print(plan.problem));
    json.member("split_keys", plan.split_keys);
    json.member("splits", plan.splits);
    json.member("stages", [&] {
      json.list([&] {
        for (std::size_t i = 0; i < plan.stages.size(); ++i)
          write(json, plan.stages[i], i < facts.stages.size() ? facts.stages[i] : PlanFacts::OfStage());
      });
    });
    json.member("target", plan.target->name);
    if (cpu) json.member("threads", plan.workers);
    json.member("workspace_bytes", facts.workspace_bytes.value_or(plan.workspace.total));
  });
}

void write(JsonWriter& json, const Verdict& verdict) {
  json.object([&] {
    json.member("accepted", verdict.accepted);
    json.member("candidate", verdict.candidate);
    json.member("chosen", verdict.chosen);
    json.member("reason", verdict.reason);
    json.member("rule", verdict.rule);
    if (verdict.accepted) json.member("seconds", verdict.seconds);
  });
}

}  // namespace

std::string to_json(const Plan& plan, const PlanFacts& facts) {
  JsonWriter json;
  write(json, plan, facts);
  return json.take();
}

std::string to_json(const Explanation& explanation, const PlanFacts& facts) {
  JsonWriter json;
  json.object([&] {
    json.member("bucket", explanation.bucket);
    if (explanation.plan) {
      json.member("by_cost", explanation.by_cost);
      json.member("chosen_by", word(explanation.chosen_by));
    }
    if (!explanation.functions.empty()) json.member("functions", explanation.functions);
    if (!explanation.notes.empty()) json.member("notes", explanation.notes);
    if (explanation.plan) json.member("plan", [&] { write(json, *explanation.plan, facts); });
    json.member("problem", explanation.problem);
    if (!explanation.record.empty()) json.member("record", explanation.record);
    if (!explanation.refusal.empty()) json.member("refusal", explanation.refusal);
    json.member("target", explanation.target);
    if (!explanation.variants.empty()) {
      json.member("variants", [&] {
        json.list([&] {
          for (const Ranked& variant : explanation.variants) {
            json.object([&] {
              json.member("candidate", variant.candidate);
              json.member("seconds", variant.seconds);
            });
          }
        });
      });
    }
    json.member("verdicts", [&] {
      json.list([&] {
        for (const Verdict& verdict : explanation.verdicts) write(json, verdict);
      });
    });
  });
  return json.take();
}

namespace {

const char* plural(std::int64_t count) {
  return count == 1 ? "" : "s";
}

/// The plan as text, stage by stage.
std::string to_text(const Plan& plan) {
  const bool cpu = plan.target->on_cpu();
  std::string text =
      fmt::format("plan: {}, {} stage{}, {} {}{}, {} bytes of workspace\n", word(plan.family),
                  plan.stages.size(), plural(std::ssize(plan.stages)), plan.workers,
                  cpu ? "thread" : "multiprocessor", plural(plan.workers), plan.workspace.total);
  if (plan.splits > 1) text += fmt::format("  the keys in {} parts of {}\n", plan.splits, plan.split_keys);
  for (const Stage& stage : plan.stages) {
    text += fmt::format("  {}: {} block{}", stage.key.algorithm.kernel, stage.grid, plural(stage.grid));
    if (stage.shared_bytes > 0) text += fmt::format(", {} bytes of shared memory", stage.shared_bytes);
    if (cpu) text += fmt::format(", {} bytes of scratch per thread", stage.scratch_bytes);
    for (const auto& [name, value] : schedule_numbers(stage)) text += fmt::format(", {}={}", name, value);
    text += fmt::format(", kernel '{}'\n", print(stage.key));
  }
  return text;
}

/// Candidates of one recipe that the same rule refused.
struct Group {
  std::string stages, rule;
  std::vector<const Verdict*> verdicts;
};

std::vector<Group> groups_of(const std::vector<Verdict>& verdicts) {
  std::vector<Group> groups;
  for (const Verdict& verdict : verdicts) {
    if (verdict.accepted) continue;
    const auto same = [&](const Group& group) {
      return group.stages == verdict.stages && group.rule == verdict.rule;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(group, {verdict.stages, verdict.rule, {}});
    group->verdicts.push_back(&verdict);
  }
  return groups;
}

std::string line(const char* mark, std::string_view candidate, const Verdict& verdict) {
  const std::string rule = verdict.rule.empty() ? "" : fmt::format(" [{}]", verdict.rule);
  return fmt::format("  {} {}: {}{}\n", mark, candidate, verdict.reason, rule);
}

/// What decided, where it was not the cost model alone.
std::string decision_of(const Explanation& explanation) {
  std::string text;
  if (explanation.chosen_by == ChosenBy::caller) text += "chosen by the caller";
  if (explanation.chosen_by == ChosenBy::record) text += fmt::format("chosen by {}", explanation.record);
  const auto chosen = std::ranges::find(explanation.verdicts, true, &Verdict::chosen);
  const bool same = chosen != explanation.verdicts.end() && chosen->candidate == explanation.by_cost;
  if (!text.empty())
    text += fmt::format("; the cost model would take {}\n", same ? "the same" : explanation.by_cost);
  for (const std::string& note : explanation.notes) text += note + "\n";
  return text;
}

/// The last one represents all, as tables are ordered from narrow to wide.
std::string to_text(const Group& group) {
  const Verdict& last = *group.verdicts.back();
  const std::size_t count = group.verdicts.size();
  if (count == 1) return line("refused ", last.candidate, last);
  return line("refused ", fmt::format("{} of {}", count, group.stages), last);
}

}  // namespace

std::string to_text(const Explanation& explanation, bool all) {
  std::string text = fmt::format("{}\non {}\n", explanation.problem, explanation.target);
  if (!explanation.functions.empty()) text += explanation.functions + "\n";
  for (const Verdict& verdict : explanation.verdicts) {
    if (!all && !verdict.accepted) continue;
    const char* mark = verdict.chosen ? "chosen  " : verdict.accepted ? "accepted" : "refused ";
    text += line(mark, verdict.candidate, verdict);
  }
  if (all) {
    for (const Ranked& variant : explanation.variants)
      text += fmt::format("  variant  {}: about {:.3g} ms\n", variant.candidate, variant.seconds * 1e3);
  } else {
    for (const Group& group : groups_of(explanation.verdicts)) text += to_text(group);
  }
  text += decision_of(explanation);
  if (explanation.plan) text += to_text(*explanation.plan);
  if (!explanation.refusal.empty()) text += explanation.refusal + "\n";
  return text;
}

}  // namespace regard
