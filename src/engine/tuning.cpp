#include "engine/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>

#include "base/digest.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process_lifetime.h"
#include "base/settings.h"
#include "base/text.h"
#include "compile/render.h"
#include "engine/bundles.h"
#include "engine/choice.h"
#include "engine/machine.h"
#include "plan/plan.h"

namespace regard {
namespace {

constexpr std::uint64_t most_bytes = 64 << 20;

struct Tuning {
  std::string path;
  std::vector<TunedProblem> problems;
};
using Shared = std::shared_ptr<const Tuning>;

/// As in bundles.cpp: replaced in one step, so that a fork leaves the child a complete one.
constinit std::atomic<const Shared*> in_use{nullptr};
ForkLocal<std::mutex>& in_use_lock = *new ForkLocal<std::mutex>;

Result<Shared> read_tuning(const std::string& path) {
  if (path.empty()) return std::make_shared<const Tuning>();
  const Result<std::string> text = read_file(path, most_bytes, Links::followed);
  if (!text)
    return fail(text.error().kind, fmt::format("the tuning records {} cannot be read: {}", printable(path),
                                               text.error().message));
  Result<std::vector<TunedProblem>> problems = parse_tuning(*text, path);
  if (!problems) return tl::unexpected(problems.error());
  return std::make_shared<const Tuning>(Tuning{path, std::move(*problems)});
}

Result<Shared> from_setting() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  Result<Shared> read = read_tuning(current->tuning);
  if (!read) return fail(read.error().kind, "REGARD_TUNING: " + read.error().message);
  return read;
}

/// If several threads read the setting's file, the records of the first one are kept.
Result<Shared> current_tuning() {
  if (in_use.load(std::memory_order_acquire) == nullptr) {
    Result<Shared> read = from_setting();
    if (!read) return read;
    publish(in_use, std::make_unique<const Shared>(std::move(*read)));
  }
  const std::lock_guard lock(in_use_lock.get());
  return *in_use.load(std::memory_order_acquire);
}

/// The records in a bundle; those that cannot be read give a warning.
Shared tuning_in(const Bundle& bundle) {
  Result<std::vector<TunedProblem>> problems = parse_tuning(bundle.about().tuning, bundle.path());
  if (!problems) {
    warn_once("the tuning records of a bundle are not used: " + problems.error().message);
    return nullptr;
  }
  return std::make_shared<const Tuning>(Tuning{bundle.path(), std::move(*problems)});
}

/// In the order in which they are searched: the file, then bundles in the order in which they are searched
/// for kernels.
Result<std::vector<Shared>> all_tuning() {
  const Result<Shared> file = current_tuning();
  if (!file) return tl::unexpected(file.error());
  std::vector<Shared> all{*file};
  const Result<std::shared_ptr<const Bundles>> open = bundles();
  if (!open) return all;  // it is an error when a kernel is looked for
  const auto add = [&all](const OpenBundle& one) {
    if (one.bundle == nullptr || one.bundle->about().tuning.empty()) return;
    if (Shared records = tuning_in(*one.bundle)) all.push_back(std::move(records));
  };
  if ((*open)->first) add(*(*open)->first);
  if ((*open)->embedded) add(*(*open)->embedded);
  std::ranges::for_each((*open)->others, add);
  return all;
}

/// The digest of the source that this library compiles for a kernel.
Result<std::string> digest_of(const KernelKey& key) {
  const Result<Rendered> rendered = render(key);
  if (!rendered) return tl::unexpected(rendered.error());
  return sha256(rendered->source).hex();
}

/// Why its kernels are not the ones that were measured; empty where they are.
std::string changed_kernel(const TuningRecord& record) {
  for (const auto& [text, digest] : record.kernels) {
    const Result<KernelKey> key = parse_kernel_key(text);
    const Result<std::string> own = key ? digest_of(*key) : tl::unexpected(key.error());
    if (!own || *own != digest)
      return fmt::format("the kernel '{}' has changed since Regard {}; tune again", text, record.version);
  }
  return {};
}

/// Why a record is not used here; empty where it is.
std::string why_not(const TuningRecord& record, const Target& target, const std::string& device,
                    int threads) {
  if (record.device != device) return fmt::format("it is for {}, and this is {}", record.device, device);
  if (target.on_cpu() && record.threads != threads)
    return fmt::format("it is for {} threads, and this plan has {}", record.threads, threads);
  return changed_kernel(record);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

/// "2.15 ms", or "not measured".
std::string time_of(const TuningRecord& record, const std::string& candidate) {
  const auto found = record.times.find(candidate);
  return found == record.times.end() ? "not measured" : fmt::format("{:.3g} ms", found->second);
}

}  // namespace

Status use_tuning(const std::string& path) {
  Result<Shared> read = read_tuning(path);
  if (!read) return tl::unexpected(read.error());
  auto fresh = std::make_unique<const Shared>(std::move(*read));
  std::unique_ptr<const Shared> earlier;
  {
    const std::lock_guard lock(in_use_lock.get());
    earlier.reset(in_use.exchange(fresh.release(), std::memory_order_acq_rel));
  }
  note_choice_change();
  return {};
}

Result<std::string> device_of(const Target& target) {
  if (target.on_cpu()) return cpu_model();
  const Result<const gpu::Device*> device = gpu::current_device(backend_of(target));
  if (!device) return tl::unexpected(device.error());
  return (*device)->name;
}

Result<Recorded> recorded(const Problem& problem, const Target& target, int threads) {
  Recorded answer;
  if (problem.batch_invariant) return answer;
  const Result<std::vector<Shared>> all = all_tuning();
  if (!all) return tl::unexpected(all.error());
  for (const Shared& tuning : *all) {
    const std::vector<const TunedProblem*> near = nearest_records(tuning->problems, problem, target.name);
    if (near.empty()) continue;
    const Result<std::string> device = device_of(target);
    if (!device) return answer;  // a problem of another machine is explained here
    for (const TunedProblem* one : near) {
      const TuningRecord& record = one->record;
      const std::string why = why_not(record, target, *device, threads);
      if (!why.empty()) {
        answer.notes.push_back(fmt::format("the tuning record of '{}' in {} is not used: {}", record.problem,
                                           tuning->path, why));
        continue;
      }
      answer.candidate = record.candidate;
      answer.record =
          fmt::format("the tuning record of '{}' in {} ({}; {} for the cost model's choice)", record.problem,
                      tuning->path, time_of(record, record.candidate), time_of(record, record.by_cost));
      return answer;
    }
  }
  if (!answer.notes.empty()) warn_once(answer.notes.front());
  return answer;
}

Result<TuningRecord> make_record(const Problem& problem, const Target& target, int threads,
                                 std::span<const MeasuredCandidate> measured) {
  PlanOptions options{.threads = threads};
  Explanation explained;
  if (const Result<Plan> by_cost = plan(problem, target, options, &explained); !by_cost)
    return tl::unexpected(by_cost.error());
  options.family = measured.front().name;
  const Result<Plan> best = plan(problem, target, options);
  if (!best) return tl::unexpected(best.error());
  const Result<std::string> device = device_of(target);
  if (!device) return tl::unexpected(device.error());

  TuningRecord record{.tuning = tuning_format,
                      .problem = print(problem),
                      .target = target.name,
                      .device = *device,
                      .threads = target.on_cpu() ? threads : 0,
                      .candidate = measured.front().name,
                      .by_cost = explained.by_cost,
                      .version = REGARD_VERSION,
                      .date = today()};
  for (const auto& [name, seconds] : measured) record.times[name] = seconds * 1e3;
  for (const Stage& stage : best->stages) {
    const Result<std::string> digest = digest_of(stage.key);
    if (!digest) return tl::unexpected(digest.error());
    record.kernels[print(stage.key)] = *digest;
  }
  return record;
}

}  // namespace regard
