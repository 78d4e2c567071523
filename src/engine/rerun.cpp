#include "engine/rerun.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "engine/elements.h"
#include "engine/machine.h"
#include "engine/memory.h"
#include "engine/result_rows.h"
#include "engine/run.h"
#include "engine/saved_call.h"
#include "oracle/check.h"
#include "oracle/number.h"
#include "oracle/oracle.h"
#include "oracle/tolerance.h"

namespace regard {
namespace {

/// The bytes of memory from the first element of a tensor to its last.
std::int64_t bytes_of_memory(const regard_tensor& tensor) {
  const ByteRange range = range_of(tensor);
  return range.end > range.first ? static_cast<std::int64_t>(range.end - range.first) : 0;
}

/// A call's tensors in the memory of its target, as long as it runs.
class OnDevice {
 public:
  regard_arguments arguments;

  OnDevice(const gpu::Device& device, const regard_arguments& there)
      : arguments(there), device_(device), there_(there) {}
  ~OnDevice() {
    for (void* memory : memory_) static_cast<void>(gpu::release(device_, memory));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  Status bring() {
    for (regard_tensor& tensor : arguments.tensor) {
      if (tensor.data == nullptr) continue;
      const std::int64_t bytes = bytes_of_memory(tensor);
      const Result<void*> memory = gpu::allocate(device_, std::max<std::int64_t>(bytes, 1));
      if (!memory) return tl::unexpected(memory.error());
      memory_.push_back(*memory);
      if (Status status = gpu::copy(device_, *memory, tensor.data, bytes); !status) return status;
      tensor.data = *memory;
    }
    return {};
  }
  Status fetch() const {
    for (int role = 0; role < REGARD_ROLE_COUNT; ++role) {
      const regard_tensor& home = there_.tensor[role];
      if (home.data == nullptr) continue;
      if (Status status = gpu::copy(device_, home.data, arguments.tensor[role].data, bytes_of_memory(home));
          !status)
        return status;
    }
    return {};
  }

 private:
  const gpu::Device& device_;
  const regard_arguments& there_;
  std::vector<void*> memory_;
};

Status run_on_gpu(PreparedPlan& plan, const regard_arguments& arguments) {
  const Result<const gpu::Device*> device = gpu::current_device(backend_of(*plan.best().target));
  if (!device) return tl::unexpected(device.error());
  OnDevice there(**device, arguments);
  if (Status status = there.bring(); !status) return status;
  const gpu::OrderedMemory workspace(**device, plan.workspace_bytes(), nullptr);
  if (!workspace.status()) return workspace.status();
  if (Status status = run(plan, there.arguments, workspace.data(), plan.workspace_bytes()); !status)
    return status;
  if (Status status = gpu::wait(**device, nullptr); !status) return status;
  return there.fetch();
}

Status run_anywhere(PreparedPlan& plan, const regard_arguments& arguments) {
  if (plan.best().target->on_gpu()) return run_on_gpu(plan, arguments);
  const Result<AlignedMemory> workspace = aligned_memory(plan.workspace_bytes());
  if (!workspace) return tl::unexpected(workspace.error());
  return run(plan, arguments, workspace->get(), plan.workspace_bytes());
}

/// The saved call's plan, or that of the caller's options.
Result<SharedPlan> plan_for(const SavedCall& call, const EngineOptions& given) {
  EngineOptions options = given;
  if (options.target.empty()) {
    options.target = call.target;
    const Result<const Target*> target = find_target(call.target);
    if (!target) return tl::unexpected(target.error());
    if (Status status = runnable(**target); !status) {
      return refused(fmt::format("the call ran on target {}: {}; name another target to run it there",
                                 call.target, status.error().message));
    }
  }
  const bool same_target = options.target == call.target;
  if (same_target && options.threads == 0) options.threads = call.threads;
  if (same_target && options.family.empty()) {
    options.family = call.family;
    if (options.functions.empty()) options.functions = call.functions;
    Result<SharedPlan> same = prepared_plan(call.problem, options);
    if (same || is_scarce(same)) return same;
    options.family = {};  // this version of Regard does not have that kernel
    options.functions = given.functions;
  }
  return prepared_plan(call.problem, options);
}

/// Why bits that differ from the saved ones are no error; empty if they are one.
std::string why_bits_may_differ(const SavedCall& call, const PreparedPlan& plan,
                                const std::vector<UsedKernel>& kernels) {
  if (plan.best().target->name != call.target) return "another target";
  if (kernels != call.kernels) return "other kernels";
  const Problem& problem = call.problem;
  const bool in_no_order =
      problem.pass == Pass::bwd && plan.best().target->on_gpu() && !problem.deterministic;
  return in_no_order ? "gradients are summed in no fixed order, as the problem is not deterministic" : "";
}

struct Difference {
  regard_role role;
  std::int64_t elements = 0, different = 0, not_written = 0, outside = 0, judged = 0;
  double largest = 0;
  std::int64_t first = -1;  ///< the first one that counts
};

/// Whether a tensor that a call changes in place has the shape that it had before.
bool same_shape(const regard_tensor& before, const regard_tensor& after) {
  return after.data != nullptr && before.rank == after.rank &&
         std::equal(before.shape, before.shape + before.rank, after.shape);
}

/// The outputs of a rerun beside the saved ones.
class Comparing {
 public:
  regard_arguments arguments;  ///< of the rerun

  Comparing(const SavedCall& call, const TensorSpecs& specs)
      : arguments(call.before), call_(call), specs_(specs) {}

  /// Outputs start out as the complement of the saved bits, so that an element that is not written is
  /// noticed.
  Status prepare() {
    for (Roles roles = specs_.written; roles != 0; roles &= roles - 1) {
      const int role = std::countr_zero(roles);
      const regard_tensor& saved = call_.after.tensor[role];
      const bool in_place = specs_.of[role].use == REGARD_INPUT_OUTPUT;
      regard_tensor& tensor = arguments.tensor[role];
      if (!in_place && saved.data == nullptr) {
        if (call_.error.empty()) continue;
        tensor = {
            nullptr, specs_.of[role].dtype, static_cast<std::int32_t>(specs_.of[role].shape.size()), {}, {}};
        std::copy(specs_.of[role].shape.begin(), specs_.of[role].shape.end(), tensor.shape);
        make_row_major(tensor);
      } else if (!in_place) {
        tensor = saved;
      }
      if (tensor.data == nullptr && in_place) continue;
      if (in_place && !same_shape(tensor, saved))
        return invalid(fmt::format("{} has another shape before the call than after it",
                                   role_name(static_cast<regard_role>(role))));
      regard_tensor copy = tensor;
      copy.data = reinterpret_cast<void*>(64);  // only for the size of its memory
      const std::int64_t bytes = bytes_of_memory(copy);
      Result<AlignedMemory> memory = aligned_memory(std::max<std::int64_t>(bytes, 1));
      if (!memory) return tl::unexpected(memory.error());
      auto* const to = static_cast<unsigned char*>(memory->get());
      if (tensor.data == nullptr) {
        std::memset(to, 0, static_cast<std::size_t>(bytes));
      } else {
        std::memcpy(to, tensor.data, static_cast<std::size_t>(bytes));
        if (!in_place)
          for (std::int64_t i = 0; i < bytes; ++i) to[i] = static_cast<unsigned char>(~to[i]);
      }
      tensor.data = to;
      memory_.push_back(std::move(*memory));
    }
    return {};
  }

  /// Compares bits.
  std::vector<Difference> differences() const {
    const ResultRows rows(call_.problem, call_.before);
    std::vector<Difference> all;
    for (Roles roles = specs_.written; roles != 0; roles &= roles - 1) {
      const auto role = static_cast<regard_role>(std::countr_zero(roles));
      const regard_tensor &saved = call_.after.tensor[role], &now = arguments.tensor[role];
      if (saved.data == nullptr || now.data == nullptr) continue;
      Difference one{.role = role, .elements = elements_of(saved)};
      const std::int64_t size = static_cast<std::int64_t>(bytes_of(saved.dtype));
      const auto *a = static_cast<const unsigned char*>(saved.data),
                 *b = static_cast<const unsigned char*>(now.data);
      for_each_element(now, [&](std::int64_t index, std::int64_t offset) {
        const unsigned char *x = a + index * size, *y = b + offset * size;
        if (std::memcmp(x, y, static_cast<std::size_t>(size)) == 0) return;
        const bool untouched = is_untouched(role, index, offset);
        one.not_written += untouched;
        if (untouched && !rows.have(role, now.rank, place_of(now, index))) return;
        if (one.different++ == 0) one.first = index;
        note(one, oracle::decode(saved.dtype, x, 0), oracle::decode(now.dtype, y, 0));
      });
      all.push_back(one);
    }
    return all;
  }

  /// Judges by the bound of another order of sums: that between the results of two well-made kernels, each of
  /// which may be as far from the exact result as the oracle allows. Elements that it does not compute are
  /// not judged.
  void judge(std::vector<Difference>& all, const oracle::Outputs& expected) const {
    for (Difference& one : all) {
      one.first = -1;
      const auto found = expected.find(one.role);
      if (found == expected.end()) continue;
      const oracle::Output& output = found->second;
      const regard_tensor &saved = call_.after.tensor[one.role], &now = arguments.tensor[one.role];
      for (std::size_t i = 0; i < output.error.size(); ++i) {
        if (!output.has_result(i)) continue;
        const std::int64_t index = output.written ? (*output.written)[i] : static_cast<std::int64_t>(i);
        const std::int64_t offset = offset_of(now, index);
        const oracle::Judgement judgement =
            oracle::judge(saved.dtype, oracle::decode(now.dtype, now.data, offset),
                          oracle::decode(saved.dtype, saved.data, index), output.error[i]);
        ++one.judged;
        const bool inside =
            judgement.absolute <= 2 * judgement.allowed && !is_untouched(one.role, index, offset);
        if (!inside && one.outside++ == 0) one.first = index;
      }
    }
  }

 private:
  bool is_untouched(regard_role role, std::int64_t index, std::int64_t offset) const {
    if (specs_.of[role].use == REGARD_INPUT_OUTPUT) return false;
    const regard_tensor &saved = call_.after.tensor[role], &now = arguments.tensor[role];
    const std::int64_t size = static_cast<std::int64_t>(bytes_of(saved.dtype));
    const auto* x = static_cast<const unsigned char*>(saved.data) + index * size;
    const auto* y = static_cast<const unsigned char*>(now.data) + offset * size;
    return std::equal(x, x + size, y,
                      [](unsigned char p, unsigned char q) { return p == static_cast<unsigned char>(~q); });
  }
  static void note(Difference& one, double saved, double now) {
    const double difference = std::isnan(saved) && std::isnan(now) ? 0 : std::fabs(saved - now);
    one.largest = std::isnan(difference) ? INFINITY : std::max(one.largest, difference);
  }

  const SavedCall& call_;
  const TensorSpecs& specs_;
  std::vector<AlignedMemory> memory_;
};

void write(JsonWriter& json, const Difference& one, const SavedCall& call, const regard_arguments& now) {
  json.object([&] {
    json.member("elements", one.elements);
    json.member("different", one.different);
    json.member("not_written", one.not_written);
    json.member("judged", one.judged);
    json.member("outside", one.outside);
    oracle::write_number(json, "largest_difference", one.largest);
    if (one.first < 0) return;
    const regard_tensor &saved = call.after.tensor[one.role], &tensor = now.tensor[one.role];
    json.member("first", [&] {
      json.object([&] {
        const ElementIndex at = place_of(saved, one.first);
        json.member("index", std::span(at).first(static_cast<std::size_t>(saved.rank)));
        oracle::write_number(json, "saved", oracle::decode(saved.dtype, saved.data, one.first));
        oracle::write_number(json, "rerun",
                             oracle::decode(tensor.dtype, tensor.data, offset_of(tensor, one.first)));
      });
    });
  });
}

/// The call's tensors with the outputs that were saved.
regard_arguments as_saved(const SavedCall& call) {
  regard_arguments arguments = call.before;
  for (int role = 0; role < REGARD_ROLE_COUNT; ++role)
    if (call.after.tensor[role].data != nullptr) arguments.tensor[role] = call.after.tensor[role];
  return arguments;
}

/// The oracle's report about outputs, or why it has none.
void write_check(JsonWriter& json, std::string_view name, const SavedCall& call,
                 const regard_arguments& arguments, int threads) {
  const Result<std::string> report = oracle::check_report(call.problem, arguments, threads);
  json.member(name, [&] {
    if (report) return json.raw(*report);
    json.object([&] { json.member("error", report.error().message); });
  });
}

/// What a rerun found.
struct Finding {
  std::string verdict;
  std::string why_bits_may_differ;  ///< empty: the bits had to be the same
  std::string error;                ///< with which the rerun failed, where the saved call had failed
  bool sampled = false;
  std::vector<Difference> outputs;
};

/// Runs a call that failed when it was saved.
Result<Finding> rerun_failure(const SavedCall& call, PreparedPlan& plan, const regard_arguments& arguments) {
  const Status outcome = run_anywhere(plan, arguments);
  if (is_scarce(outcome)) return tl::unexpected(outcome.error());
  Finding finding{.verdict = "different"};
  if (outcome) return finding;
  finding.error = outcome.error().message;
  if (regard_status_name(static_cast<regard_status>(outcome.error().kind)) == call.error)
    finding.verdict = "same_error";
  return finding;
}

Result<Finding> rerun_success(const SavedCall& call, PreparedPlan& plan, const Comparing& comparing,
                              int threads) {
  const Problem& problem = call.problem;
  Status status = check_tensors(problem, plan.specs(), comparing.arguments);
  if (status) status = check_host_values(problem, comparing.arguments);  // a run on a GPU does not check them
  if (!status) return tl::unexpected(status.error());
  Result<oracle::Outputs> expected;
  const auto ask_oracle = [&] {
    expected = oracle::run(problem, comparing.arguments, oracle::sample(problem, threads));
  };
  if (problem.accumulate) ask_oracle();  // before its inputs are overwritten
  if (status = run_anywhere(plan, comparing.arguments); !status) return tl::unexpected(status.error());
  const Result<std::vector<UsedKernel>> kernels = used_kernels(plan);
  if (!kernels) return tl::unexpected(kernels.error());

  Finding finding{.verdict = "same_bits", .outputs = comparing.differences()};
  finding.why_bits_may_differ = why_bits_may_differ(call, plan, *kernels);
  const auto any = [&](std::int64_t Difference::* count) {
    return std::ranges::any_of(finding.outputs, [count](const Difference& one) { return one.*count > 0; });
  };
  if (!any(&Difference::different)) return finding;
  finding.verdict = "different";
  if (finding.why_bits_may_differ.empty()) return finding;
  if (!problem.accumulate) ask_oracle();
  if (!expected) return tl::unexpected(expected.error());
  comparing.judge(finding.outputs, *expected);
  const oracle::Options options = oracle::sample(problem, threads);
  finding.sampled = options.max_rows > 0 || options.max_heads > 0;
  if (!any(&Difference::outside)) finding.verdict = "within_bound";
  return finding;
}

std::string report_of(const SavedCall& call, const PreparedPlan& plan, const Finding& finding,
                      const regard_arguments& now, bool oracle, int threads) {
  const PreparedPlan::Ready* const ready = plan.answering();
  const Plan& used = ready != nullptr ? *ready->plan : plan.best();
  JsonWriter json;
  json.object([&] {
    json.member("problem", print(call.problem));
    json.member("saved", [&] {
      json.object([&] {
        json.member("why", call.why);
        if (!call.error.empty()) json.member("error", call.error);
        json.member("target", call.target);
        json.member("machine", call.machine);
        json.member("version", call.version);
        json.member("kernels", [&] {
          json.list([&] {
            for (const UsedKernel& kernel : call.kernels) json.value(kernel.key);
          });
        });
      });
    });
    json.member("target", used.target->name);
    json.member("kernels", [&] {
      json.list([&] {
        for (const Stage& stage : used.stages) json.value(print(stage.key));
      });
    });
    json.member("verdict", finding.verdict);
    if (!finding.why_bits_may_differ.empty()) json.member("bits_may_differ", finding.why_bits_may_differ);
    if (!finding.error.empty()) json.member("error", finding.error);
    json.member("sampled", finding.sampled);
    json.member("outputs", [&] {
      json.object([&] {
        for (const Difference& one : finding.outputs)
          json.member(role_name(one.role), [&] { write(json, one, call, now); });
      });
    });
    if (!oracle || !finding.error.empty()) return;
    json.member("oracle", [&] {
      json.object([&] {
        if (call.error.empty()) write_check(json, "saved", call, as_saved(call), threads);
        write_check(json, "rerun", call, now, threads);
      });
    });
  });
  return json.take();
}

}  // namespace

Result<std::string> rerun(const std::string& folder, const EngineOptions& options, bool oracle) {
  const Result<SavedCall> call = read_saved_call(folder);
  if (!call) return tl::unexpected(call.error());
  const Result<SharedPlan> plan = plan_for(*call, options);
  if (!plan) return tl::unexpected(plan.error());
  const Result<int> threads = thread_count(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  Comparing comparing(*call, (*plan)->specs());
  if (Status status = comparing.prepare(); !status) return tl::unexpected(status.error());
  const Result<Finding> finding = call->error.empty() ? rerun_success(*call, **plan, comparing, *threads)
                                                      : rerun_failure(*call, **plan, comparing.arguments);
  if (!finding) return tl::unexpected(finding.error());
  return report_of(*call, **plan, *finding, comparing.arguments, oracle, *threads);
}

}  // namespace regard
