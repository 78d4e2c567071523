// Values that are made at first use and live as long as the process.
#pragma once

#include <atomic>
#include <memory>

#include "base/result.h"

namespace regard {

/// Puts `fresh` there unless another thread was first; gives what stands there for ever.
template <class T>
const T& publish(std::atomic<const T*>& place, std::unique_ptr<const T> fresh) {
  const T* first = nullptr;
  if (place.compare_exchange_strong(first, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *first;
}

/// What `make` (a function without captures) gives, made when it is first asked for: `return
/// process_lifetime<[] { ...
/// }>();`. It is never destroyed, as other threads may use it until the very end of the process; and it is
/// made without a lock, as a fork may interrupt the thread that makes it. Threads that come together make it
/// more than once, and all get the same one.
template <auto make>
const auto& process_lifetime() {
  using Value = decltype(make());
  static constinit std::atomic<const Value*> made{nullptr};
  if (const Value* value = made.load(std::memory_order_acquire)) return *value;
  return publish(made, std::make_unique<const Value>(make()));
}

/// The same of a Result: what was not to be had for lack of memory, files or processes is tried again at the
/// next call. The first such failure is the answer for as long as it lasts.
template <auto make>
const auto& process_lifetime_unless_scarce() {
  using Value = decltype(make());
  static constinit std::atomic<const Value*> made{nullptr}, scarce{nullptr};
  if (const Value* value = made.load(std::memory_order_acquire)) return *value;
  auto fresh = std::make_unique<const Value>(make());
  auto& place = is_scarce(*fresh) ? scarce : made;
  return publish(place, std::move(fresh));
}

/// How many forks lie between the first process that asked and this one.
unsigned fork_count();

/// State of one process, as a forked child has its parent's tables, but not the threads that were working on
/// them, and perhaps their mutexes in a locked state: a T that is made by default construction when it is
/// first asked for, and anew in each forked child; the parent's is left as it is. One that all of a process
/// shares is a reference at namespace scope to one made with new: threads may use it until the very end, and
/// a function's own static would be initialised under a lock, in which a fork may find another thread.
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
