// Plain threads for one piece of work, where a scheduler would be too much or must not be used.
#pragma once

#include <cstddef>
#include <functional>

namespace regard {

/// Calls work(number) for every number in [0, threads), each on its own thread; 0, and those for which no
/// thread is available, on the caller's. Returns when all have ended; the first exception is passed on.
void run_threads(int threads, const std::function<void(int number)>& work);

/// Calls work(i) for every i in [0, count), in this order, each on the next free one of that many threads.
void parallel_for(std::size_t count, std::size_t threads, const std::function<void(std::size_t i)>& work);

}  // namespace regard
