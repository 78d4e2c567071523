#include "engine/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/process_lifetime.h"
#include "base/settings.h"
#include "device/cpu/cpu.h"
#include "plan/recipe.h"

namespace regard {

const gpu::Backend& backend_of(const Target& target) {
  return *gpu::find_backend(word(target.kind));
}

namespace {

/// Of no other architecture.
bool is_for_this_processor(const Target& target) {
  return target.on_cpu() && std::ranges::all_of(target.cpu_flags, cpu::can_have_flag);
}

/// "cpu-avx2, cpu-generic": the CPU targets that a processor of this architecture can have.
std::string names_for_this_processor() {
  std::vector<std::string_view> names;
  if (const Result<std::vector<Target>>& all = targets())
    for (const Target& target : *all)
      if (is_for_this_processor(target) && has_kernels(target)) names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Status runnable(const Target& target) {
  if (target.on_gpu()) {
    const Result<const gpu::Device*> device = gpu::current_device(backend_of(target));
    if (!device) return tl::unexpected(device.error());
    return gpu::runs_on(**device, target.name);
  }
  if (!is_for_this_processor(target))
    return refused(
        fmt::format("target {} is for processors of another architecture; those for this one are {}",
                    target.name, names_for_this_processor()));
  const auto flags = cpu::cpu_flags();
  for (const std::string& flag : target.cpu_flags) {
    if (std::find(flags.begin(), flags.end(), flag) == flags.end()) {
      return refused(
          fmt::format("this machine cannot run target {}: its CPU has no {}; cpu-generic runs everywhere",
                      target.name, flag));
    }
  }
  if (target.has(Feature::amx) && !target.has(Feature::amx_emulated)) {
    if (const Status allowed = cpu::allow_tiles(); !allowed) {
      return refused(fmt::format("this machine cannot run target {}: {}; cpu-avx512 does without them",
                                 target.name, allowed.error().message));
    }
  }
  return {};
}

namespace {

Result<const Target*> find_best() {
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());

  int highest = std::numeric_limits<int>::max();
  const Target* asked = nullptr;
  if (!current->cpu_target.empty()) {
    const Result<const Target*> cap = find_target(current->cpu_target);
    if (!cap) return invalid("REGARD_CPU_TARGET: " + cap.error().message);
    if ((*cap)->on_gpu()) {
      return invalid(fmt::format("REGARD_CPU_TARGET={} is no CPU target; use one of {}", (*cap)->name,
                                 names_for_this_processor()));
    }
    asked = *cap;
    highest = asked->preference;
  }
  const Target* best = nullptr;
  for (const Target& target : *all) {
    if (target.on_gpu() || !has_kernels(target) || target.preference > highest) continue;
    if (&target != asked && std::ranges::find(target.slow_on, cpu::cpu_vendor()) != target.slow_on.end())
      continue;
    if (!runnable(target)) continue;
    if (best == nullptr || target.preference > best->preference) best = &target;
  }
  if (best == nullptr)
    return fail(ErrorKind::internal, "no CPU target runs on this machine, not even cpu-generic");
  return best;
}

}  // namespace

Result<const Target*> best_target() {
  return process_lifetime_unless_scarce<find_best>();
}

Result<const Target*> best_gpu_target(const gpu::Backend& backend) {
  const Result<const gpu::Device*> device = gpu::current_device(backend);
  if (!device) return tl::unexpected(device.error());
  const Result<std::vector<Target>>& all = targets();
  if (!all) return tl::unexpected(all.error());
  for (const Target& target : *all) {  // the most preferred of a kind comes first
    if (word(target.kind) != gpu::kind_of(backend) || !has_kernels(target)) continue;
    if (gpu::runs_on(**device, target.name)) return &target;
  }
  return refused(fmt::format("there are no kernels for {}, which is {}", (*device)->name, (*device)->chip));
}

Result<int> thread_count(int requested) {
  if (requested < 0 || requested > most_threads) {
    return invalid(
        fmt::format("threads={} is out of range; use 1 to {}, or 0 for all cores", requested, most_threads));
  }
  if (requested > 0) return requested;
  const Result<Settings>& current = settings();
  if (!current) return tl::unexpected(current.error());
  if (current->threads > most_threads) {
    return invalid(fmt::format("REGARD_THREADS={} is out of range; use 1 to {}, or 0 for all cores",
                               current->threads, most_threads));
  }
  return current->threads > 0 ? static_cast<int>(current->threads) : cpu::usable_cores();
}

std::string cpu_model() {
  const std::string_view model = cpu::cpu_model();
  return model.empty() ? "unknown CPU" : std::string(model);
}

}  // namespace regard
