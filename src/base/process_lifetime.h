// Values that are made at first use and live as long as the process.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"

namespace regard {

/// Stores `fresh` there unless another thread was first; returns what is stored there permanently.
template <class T>
const T& publish(std::atomic<const T*>& storage, std::unique_ptr<const T> fresh) {
  const T* first = nullptr;
  if (storage.compare_exchange_strong(first, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *first;
}

/// The result of `make` (a function without captures), made when first needed: `return process_lifetime<[] {
/// ... }>();`. It is never destroyed, as other threads may use it until the very end of the process; and it
/// is made without a lock, as a fork may interrupt the thread that makes it. Concurrent first calls make it
/// more than once, but all get the same one.
template <auto make>
const auto& process_lifetime() {
  using Value = decltype(make());
  static constinit std::atomic<const Value*> made{nullptr};
  if (const Value* value = made.load(std::memory_order_acquire)) return *value;
  return publish(made, std::make_unique<const Value>(make()));
}

/// The same for a Result: what failed for lack of memory, files or processes is tried again at the next call;
/// while that lasts, the first such failure is returned.
template <auto make>
const auto& process_lifetime_unless_scarce() {
  using Value = decltype(make());
  static constinit std::atomic<const Value*> made{nullptr}, scarce{nullptr};
  if (const Value* value = made.load(std::memory_order_acquire)) return *value;
  auto fresh = std::make_unique<const Value>(make());
  auto& storage = is_scarce(*fresh) ? scarce : made;
  return publish(storage, std::move(fresh));
}

/// The number of forks between the first process that asked and this one.
unsigned fork_count();

/// State of one process, as a forked child has its parent's tables, but not the threads that were working on
/// them, and perhaps their mutexes in a locked state: a T that is default-constructed when first needed, and
/// anew in each forked child; the parent's is left as it is. State shared by the whole process is a reference
/// at namespace scope to an object made with new: threads may use it until the very end, and a function-local
/// static would be initialised under a lock, which another thread may hold at a fork.
template <class T>
class ForkLocal {
 public:
  ForkLocal() = default;
  ForkLocal(const ForkLocal&) = delete;
  ForkLocal& operator=(const ForkLocal&) = delete;
  ~ForkLocal() { delete current_.load(); }

  T& get() {
    Made* current = current_.load(std::memory_order_acquire);
    const unsigned now = fork_count();
    if (current != nullptr && current->born == now) return current->value;
    Made* const fresh = new Made{now, {}};
    if (current_.compare_exchange_strong(current, fresh)) return fresh->value;
    delete fresh;
    return current->value;
  }

 private:
  struct Made {
    unsigned born;
    T value;
  };
  std::atomic<Made*> current_{nullptr};
};

}  // namespace regard
