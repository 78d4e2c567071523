// What a test program asks of the C library.
#pragma once

#include <atomic>
#include <utility>

namespace regard::test {

/// Whether this build counts: sanitizers have malloc and the locks for themselves.
extern const bool counts;

struct Counted {
  int allocations;  ///< of memory, in any thread
  int locks;        ///< of mutexes and of locks for readers and writers, in this thread
};

void begin_counting();
Counted end_counting();

/// While `call` runs.
template <class Call>
Counted counted(Call&& call) {
  begin_counting();
  std::forward<Call>(call)();
  return end_counting();
}

}  // namespace regard::test
