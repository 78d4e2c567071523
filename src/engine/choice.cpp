#include "engine/choice.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "base/process_lifetime.h"

namespace regard {
namespace {

using Shared = std::shared_ptr<const Choose>;

/// As in bundles.cpp: replaced in one step, so that a fork leaves the child a complete one.
constinit std::atomic<const Shared*> in_use{nullptr};
ForkLocal<std::mutex>& in_use_lock = *new ForkLocal<std::mutex>;
constinit std::atomic<int> changes{0};

}  // namespace

void choose_by(Choose choose) {
  auto fresh = std::make_unique<const Shared>(std::make_shared<const Choose>(std::move(choose)));
  std::unique_ptr<const Shared> earlier;
  {
    const std::lock_guard lock(in_use_lock.get());
    earlier.reset(in_use.exchange(fresh.release(), std::memory_order_acq_rel));
  }
  note_choice_change();
}

Choose current_choice() {
  if (in_use.load(std::memory_order_acquire) == nullptr) return {};
  const std::lock_guard lock(in_use_lock.get());
  return **in_use.load(std::memory_order_acquire);
}

int choice_changes() {
  return changes.load(std::memory_order_acquire);
}

void note_choice_change() {
  changes.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace regard
