// State of one process: a forked child starts with fresh state of its own. It has its parent's tables, but
// not the threads that were working on them, and perhaps their mutexes in a locked state.
#pragma once

#include <atomic>

namespace regard {

/// How many forks lie between the first process that asked and this one.
unsigned fork_count();

/// A T that is made by default construction when it is first asked for, and anew in each forked child; the
/// parent's is left as it is. One that all of a process shares is a reference at namespace scope to one made
/// with new: threads may use it until the very end, and a function's own static would be initialised under a
/// lock, in which a fork may find another thread.
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
