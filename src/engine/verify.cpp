#include "engine/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "base/settings.h"
#include "engine/host_copy.h"
#include "engine/machine.h"
#include "engine/memory.h"
#include "engine/run.h"
#include "oracle/check.h"
#include "oracle/number.h"
#include "problem/tensors.h"

namespace regard {
namespace {

void report_line(const Problem& problem, std::string_view beside, std::string_view text) {
  std::fputs(fmt::format("regard verify: {} beside {}: {}\n", print(problem), beside, text).c_str(), stderr);
}

/// The outputs of the live call with memory of their own, contiguous.
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
    std::int64_t elements = 1;
    for (int i = tensor.rank - 1; i >= 0; --i) {
      tensor.strides[i] = elements;
      elements *= tensor.shape[i];
    }
    second.memory.emplace_back(static_cast<std::size_t>(elements) * bytes_of(tensor.dtype));
    tensor.data = second.memory.back().data();
    second.roles.push_back(role);
  }
  return second;
}

/// Elements in row-major order of the logical shape, as doubles.
std::vector<double> values(const regard_tensor& tensor) {
  std::int64_t elements = 1;
  for (int i = 0; i < tensor.rank; ++i) elements *= tensor.shape[i];
  std::vector<double> result(static_cast<std::size_t>(elements));
  for (std::int64_t flat = 0; flat < elements; ++flat) {
    std::int64_t rest = flat, offset = 0;
    for (int i = tensor.rank - 1; i >= 0; --i) {
      offset += rest % tensor.shape[i] * tensor.strides[i];
      rest /= tensor.shape[i];
    }
    result[static_cast<std::size_t>(flat)] = oracle::decode(tensor.dtype, tensor.data, offset);
  }
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;  // -inf beside -inf is no difference
    const double difference = std::abs(a[i] - b[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

Status verify_beside(const PreparedPlan& live, const regard_arguments& arguments, const std::string& wanted) {
  const Problem& problem = live.best().problem;
  EngineOptions options;
  options.threads = live.best().threads;
  if (find_target(wanted)) {
    options.target = wanted;
  } else {
    options.target = live.best().target->name;
    options.family = wanted;
  }
  const Result<SharedPlan> other = prepared_plan(problem, options);
  if (!other) {
    if (other.error().kind == ErrorKind::invalid) return invalid("REGARD_VERIFY: " + other.error().message);
    report_line(problem, wanted, other.error().message);
    return {};
  }
  const Result<AlignedMemory> workspace = aligned_memory((*other)->workspace_bytes());
  if (!workspace) return tl::unexpected(workspace.error());
  const SecondOutputs second = second_outputs(problem, arguments);
  if (Status status = run(**other, second.arguments, workspace->get(), (*other)->workspace_bytes());
      !status) {
    return status;
  }
  std::string text;
  for (regard_role role : second.roles) {
    text += fmt::format(
        "{}{} differs by at most {:.3g}", text.empty() ? "" : ", ", role_name(role),
        largest_difference(values(arguments.tensor[role]), values(second.arguments.tensor[role])));
  }
  report_line(problem, wanted, text);
  return {};
}

}  // namespace

Status verify_if_asked(const PreparedPlan& live, const regard_arguments& arguments) {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (current->verify.empty()) return {};
  const bool on_gpu = live.best().target->kind != TargetKind::cpu;
  if (current->verify != "oracle" && on_gpu) {
    return refused(fmt::format("REGARD_VERIFY={} compares CPU targets; on a GPU use REGARD_VERIFY=oracle",
                               current->verify));
  }
  if (current->verify != "oracle") return verify_beside(live, arguments, current->verify);
  const Result<HostCopy> there = host_copy(arguments);
  if (!there) return tl::unexpected(there.error());
  const Result<int> threads = thread_count(on_gpu ? 0 : live.best().threads);
  if (!threads) return tl::unexpected(threads.error());
  const Result<std::string> report = oracle::check_report(live.best().problem, there->arguments, *threads);
  if (!report) return tl::unexpected(report.error());
  report_line(live.best().problem, "oracle", *report);
  return {};
}

}  // namespace regard
