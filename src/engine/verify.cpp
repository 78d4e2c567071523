#include "engine/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "base/settings.h"
#include "base/text.h"
#include "engine/elements.h"
#include "engine/host_copy.h"
#include "engine/machine.h"
#include "engine/memory.h"
#include "engine/run.h"
#include "oracle/check.h"
#include "oracle/number.h"
#include "plan/recipe.h"
#include "problem/tensors.h"

namespace regard {
namespace {

/// The outputs of the live call with their own contiguous memory. They start with the live contents: rows
/// past a sequence's end are not written, and must not count as a difference.
struct SecondOutputs {
  regard_arguments arguments;
  std::vector<std::vector<std::byte>> memory;
  std::vector<regard_role> roles;
};

SecondOutputs second_outputs(const Problem& problem, const regard_arguments& live) {
  SecondOutputs second{live, {}, {}};
  for (int index = 0; index < REGARD_ROLE_COUNT; ++index) {
    const auto role = static_cast<regard_role>(index);
    regard_tensor& tensor = second.arguments.tensor[index];
    const TensorSpec spec = tensor_spec(problem, role);
    if (spec.use != REGARD_OUTPUT || tensor.data == nullptr) continue;
    make_row_major(tensor);
    std::vector<std::byte>& to = second.memory.emplace_back(row_major(live.tensor[index]));
    // Even an empty one has an address, as null would mean that it is missing.
    if (to.empty()) to.resize(1);
    tensor.data = to.data();
    second.roles.push_back(role);
  }
  return second;
}

/// Elements in row-major order of the logical shape, as doubles.
std::vector<double> values(const regard_tensor& tensor) {
  std::vector<double> result;
  for_each_element(tensor, [&](std::int64_t, std::int64_t offset) {
    result.push_back(oracle::decode(tensor.dtype, tensor.data, offset));
  });
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;  // -inf in both is no difference
    const double difference = std::abs(a[i] - b[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

/// A word that is neither a target nor a family may have been meant as "oracle". The numbers of a tile are
/// checked with the plan.
Status known_path(const std::string& requested) {
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::string_view> names{"oracle"};
  for (const Target& target : *all) names.push_back(target.name);
  names.insert(names.end(), recipe_words().begin(), recipe_words().end());
  const bool has_numbers = requested.find_first_of(" =") != std::string::npos;
  if (has_numbers || std::ranges::find(names, requested) != names.end()) return {};
  return invalid(fmt::format("unknown family, kernel or target {}{}", in_quotes(requested),
                             suggestion(requested, names)));
}

/// How far the other path's outputs are from the live ones.
Result<std::string> differences(const PreparedPlan& live, const regard_arguments& arguments,
                                const std::string& requested) {
  if (Status status = known_path(requested); !status) return tl::unexpected(status.error());
  const Problem& problem = live.problem();
  EngineOptions options;
  options.threads = live.best().workers;
  const Target* target = live.best().target;
  if (const Result<const Target*> other = find_target(requested)) {
    target = *other;
  } else {
    options.family = requested;
  }
  options.target = target->name;
  if (target->on_gpu() || live.best().target->on_gpu())
    return refused("only CPU targets are compared with each other; on a GPU use REGARD_VERIFY=oracle");
  const Result<SharedPlan> other = prepared_plan(problem, options);
  if (!other) return tl::unexpected(other.error());
  const Result<AlignedMemory> workspace = aligned_memory((*other)->workspace_bytes());
  if (!workspace) return tl::unexpected(workspace.error());
  const SecondOutputs second = second_outputs(problem, arguments);
  if (Status status = run(**other, second.arguments, workspace->get(), (*other)->workspace_bytes());
      !status) {
    return tl::unexpected(status.error());
  }
  std::string text;
  for (regard_role role : second.roles) {
    text += fmt::format(
        "{}{} differs by at most {:.3g}", text.empty() ? "" : ", ", role_name(role),
        largest_difference(values(arguments.tensor[role]), values(second.arguments.tensor[role])));
  }
  return text;
}

Result<std::string> oracle_report(const PreparedPlan& live, const regard_arguments& arguments) {
  const bool on_gpu = live.best().target->on_gpu();
  const Result<HostCopy> there = host_copy(arguments);
  if (!there) return tl::unexpected(there.error());
  const Result<int> threads = thread_count(on_gpu ? 0 : live.best().workers);
  if (!threads) return tl::unexpected(threads.error());
  return oracle::check_report(live.problem(), there->arguments, *threads);
}

}  // namespace

Status verify_if_asked(const PreparedPlan& live, const regard_arguments& arguments) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const std::string& requested = current->verify;
  if (requested.empty()) return {};
  const Result<std::string> report =
      requested == "oracle" ? oracle_report(live, arguments) : differences(live, arguments, requested);
  if (is_interrupted(report)) return tl::unexpected(report.error());
  if (!report && report.error().kind == ErrorKind::invalid)
    return invalid("REGARD_VERIFY: " + report.error().message);
  const std::string line = report ? fmt::format(" beside {}: {}", requested, *report)
                                  : fmt::format(": REGARD_VERIFY={}: {}", requested, report.error().message);
  std::fputs(fmt::format("regard verify: {}{}\n", print(live.problem()), line).c_str(), stderr);
  return {};
}

}  // namespace regard
