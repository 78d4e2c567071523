#include "engine/save_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "base/files.h"
#include "base/log.h"
#include "base/process_lifetime.h"
#include "base/text.h"
#include "engine/elements.h"
#include "engine/host_copy.h"
#include "engine/machine.h"
#include "engine/result_rows.h"
#include "engine/run.h"
#include "engine/run_gpu.h"
#include "engine/saved_call.h"
#include "oracle/check.h"
#include "oracle/number.h"
#include "problem/tensors.h"

namespace regard {
namespace {

using When = SaveCalls::When;

/// What a process has saved.
class Saved {
 public:
  /// Counts a call, and returns its number, from 0.
  std::int64_t count_call() { return calls_.fetch_add(1, std::memory_order_relaxed); }
  bool is_full(const SaveCalls& setting) {
    const std::lock_guard lock(mutex_);
    return saved_ >= setting.calls;
  }
  /// A new folder, or why there is none.
  Result<std::string> add(const SaveCalls& setting, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (saved_ >= setting.calls)
      return refused(fmt::format("{} calls are saved; calls=N allows more", saved_));
    if (bytes > setting.bytes - bytes_) {
      return refused(fmt::format("its tensors have {} bytes, and {} of {} are left; bytes=N allows more",
                                 bytes, setting.bytes - bytes_, setting.bytes));
    }
    Result<std::string> folder = make_folder(setting.folder);
    if (!folder) return folder;
    ++saved_;
    bytes_ += bytes;
    return folder;
  }

 private:
  /// Folders of other processes, and of earlier ones, stay.
  Result<std::string> make_folder(const std::string& parent) {
    int error = make_folders(parent);
    for (; error == 0 && number_ < 1'000'000; ++number_) {
      std::string path = fmt::format("{}/call-{:04}", parent, number_);
      if (mkdir(path.c_str(), 0777) == 0) return path;
      if (errno != EEXIST) error = errno;
    }
    return fail(kind_of(error, ErrorKind::invalid),
                fmt::format("no folder can be made in {}: {}", printable(parent),
                            error == 0 ? "it has too many" : std::strerror(error)));
  }

  std::mutex mutex_;
  std::atomic<std::int64_t> calls_{0};
  std::int64_t saved_ = 0, bytes_ = 0;
  int number_ = 1;
};

/// A forked child may find the mutex locked, so it starts with its own.
ForkLocal<Saved>& saved = *new ForkLocal<Saved>;

void warn(std::string_view why) {
  warn_once(fmt::format("REGARD_SAVE_CALLS: a call is not saved: {}", why));
}

/// Whether the call is one that may be saved, before anything is known about it.
bool may_save(const SaveCalls& setting, std::int64_t number) {
  if (setting.when == When::first) return number < setting.number;
  return setting.when != When::every || number % setting.number == 0;
}

/// The device of a GPU call; null on a CPU, and for a call without elements.
const gpu::Device* device_of(const PreparedPlan& plan, const regard_arguments& given) {
  if (plan.best().target->on_cpu()) return nullptr;
  const std::optional<regard_role> leading = leading_tensor(plan.specs(), given);
  return leading ? gpu::device_holding(given.tensor[*leading].data) : nullptr;
}

/// The tensors that a call changes in place, as they were before.
struct Before {
  std::vector<std::pair<regard_role, std::vector<std::byte>>> elements;

  static Result<Before> of(const TensorSpecs& specs, const regard_arguments& given) {
    Before before;
    const Status status = for_each(specs.written, [&](regard_role role) -> Status {
      if (specs.of[role].use != REGARD_INPUT_OUTPUT || given.tensor[role].data == nullptr) return {};
      regard_arguments alone = REGARD_ARGUMENTS_INIT;
      alone.tensor[role] = given.tensor[role];
      const Result<HostCopy> there = host_copy(alone);
      if (!there) return tl::unexpected(there.error());
      before.elements.emplace_back(role, row_major(there->arguments.tensor[role]));
      return {};
    });
    if (!status) return tl::unexpected(status.error());
    return before;
  }

  /// The call's inputs: these tensors, and all others from `there`.
  regard_arguments arguments(const regard_arguments& there) {
    regard_arguments result = there;
    for (auto& [role, bytes] : elements) {
      make_row_major(result.tensor[role]);
      result.tensor[role].data = bytes.data();
    }
    return result;
  }
};

/// The first NaN of an output.
std::optional<OutputElement> first_nan(const PreparedPlan& plan, const regard_arguments& there) {
  const ResultRows rows(plan.problem(), there);
  std::optional<OutputElement> found;
  for (Roles roles = plan.specs().written; roles != 0 && !found; roles &= roles - 1) {
    const auto role = static_cast<regard_role>(std::countr_zero(roles));
    const regard_tensor& tensor = there.tensor[role];
    if (tensor.data == nullptr || tensor.dtype == REGARD_UINT8 || tensor.dtype == REGARD_INT8) continue;
    for_each_element(tensor, [&](std::int64_t index, std::int64_t offset) {
      if (found || !std::isnan(oracle::decode(tensor.dtype, tensor.data, offset))) return;
      const ElementIndex at = place_of(tensor, index);
      if (rows.have(role, tensor.rank, at)) found = OutputElement{role, at, tensor.rank};
    });
  }
  return found;
}

/// The first element that is not what the oracle computes.
Result<std::optional<OutputElement>> first_mismatch(const PreparedPlan& plan, const regard_arguments& before,
                                                    const regard_arguments& there) {
  const Problem& problem = plan.problem();
  const Result<int> threads = thread_count(plan.best().target->on_gpu() ? 0 : plan.best().workers);
  if (!threads) return tl::unexpected(threads.error());
  const Result<oracle::Outputs> expected =
      oracle::run(problem, problem.accumulate ? before : there, oracle::sample(problem, *threads));
  if (!expected) return tl::unexpected(expected.error());
  for (const oracle::Comparison& one : oracle::compare(problem, there, *expected)) {
    const regard_tensor& tensor = there.tensor[one.role];
    if (!one.ok) return OutputElement{one.role, place_of(tensor, one.first_wrong), tensor.rank};
  }
  return std::optional<OutputElement>();
}

/// Writes the call, and says so.
void save(const SaveCalls& setting, const CallToSave& call) {
  const Result<std::string> folder = saved.get().add(setting, bytes_to_save(call.plan.specs(), call.given));
  if (!folder) return warn(folder.error().message);
  if (Status status = write_saved_call(*folder, call); !status) {
    remove_all(folder->c_str());
    return warn(status.error().message);
  }
  const std::string where =
      call.found
          ? fmt::format(
                ", {} at [{}]", role_name(call.found->role),
                fmt::join(std::span(call.found->at).first(static_cast<std::size_t>(call.found->rank)), ","))
          : "";
  std::fputs(fmt::format("regard: saved a call ({}{}) in {}\n", call.why, where, printable(*folder)).c_str(),
             stderr);
}

/// "invalid", "no_kernel", ...: the sentence itself can contain a path.
std::string_view kind_name(const Error& error) {
  return regard_status_name(static_cast<regard_status>(error.kind));
}

/// Decides after the call whether to save it, and does so.
Status save_if_requested(const SaveCalls& setting, const PreparedPlan& plan, const regard_arguments& given,
                         Before& before, const Status& outcome, const gpu::Device* device,
                         gpu::Stream stream) {
  const bool fails = !outcome, always = setting.when == When::first || setting.when == When::every;
  if (is_interrupted(outcome) || (!always && fails != (setting.when == When::error))) return {};
  if (device != nullptr) {
    if (Status status = gpu::wait(*device, stream); !status) return status;
  }
  const Result<HostCopy> there = host_copy(given);
  if (!there) return tl::unexpected(there.error());
  const regard_arguments inputs = before.arguments(there->arguments);
  CallToSave call{plan, given, inputs, fails ? nullptr : &there->arguments, word(setting.when)};
  if (fails) call.error = kind_name(outcome.error());
  if (setting.when == When::nan || setting.when == When::mismatch) {
    // On a GPU the call itself does not check lengths and offsets.
    if (Status status = check_host_values(plan.problem(), inputs); !status) return status;
    if (setting.when == When::nan) {
      call.found = first_nan(plan, there->arguments);
    } else {
      const auto mismatch = first_mismatch(plan, inputs, there->arguments);
      if (!mismatch) return tl::unexpected(mismatch.error());
      call.found = *mismatch;
    }
    if (!call.found) return {};
  }
  save(setting, call);
  return {};
}

/// Saving does not make a call fail, even where memory runs out for it.
template <class Body>
auto attempted(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::no_memory, "out of memory");
  }
}

}  // namespace

Status run_and_save(PreparedPlan& plan, const regard_arguments& given, void* workspace,
                    std::int64_t workspace_bytes, void* stream) {
  const SaveCalls& setting = settings()->save_calls;
  const auto plain = [&] { return run(plan, given, workspace, workspace_bytes, stream); };
  if (!may_save(setting, saved.get().count_call()) || saved.get().is_full(setting)) return plain();
  // A call whose tensors do not fit its problem cannot be read either; its error says what is wrong.
  if (!check_tensors(plan.problem(), plan.specs(), given)) return plain();
  const gpu::Device* const device = device_of(plan, given);
  auto* const queue = static_cast<gpu::Stream>(stream);
  if (device != nullptr && gpu::is_captured(*device, queue)) {
    warn("its stream is capturing a graph, in which tensors cannot be read; run without graphs to save it");
    return plain();
  }
  Result<Before> before = attempted([&]() -> Result<Before> {
    const Status ready = device != nullptr ? gpu::wait(*device, queue) : Status();
    if (!ready) return tl::unexpected(ready.error());
    return Before::of(plan.specs(), given);
  });
  if (!before) {
    warn(before.error().message);
    return plain();
  }
  const Status outcome = plain();
  const Status status =
      attempted([&] { return save_if_requested(setting, plan, given, *before, outcome, device, queue); });
  if (!status) warn(status.error().message);
  return outcome;
}

}  // namespace regard
