// Counts the calls of a test program to the C library.
#pragma once

#include <atomic>
#include <utility>

namespace regard::test {

/// Whether this build counts: sanitizers replace malloc and the locks themselves.
extern const bool counts;

struct Counted {
  int allocations;  ///< of memory, in any thread
  int locks;        ///< of mutexes and of reader-writer locks, in this thread
};

void begin_counting();
Counted end_counting();

/// Counts while `call` runs.
template <class Call>
Counted counted(Call&& call) {
  begin_counting();
  std::forward<Call>(call)();
  return end_counting();
}

}  // namespace regard::test
