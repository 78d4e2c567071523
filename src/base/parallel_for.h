// Plain threads for one piece of work, where a scheduler would be too much or may not be touched.
#pragma once

#include <cstddef>
#include <functional>

namespace regard {

/// Calls work(lane) for every lane in [0, lanes), each on a thread of its own; lane 0, and those for which no
/// thread is to be had, on the caller's. Returns when all have ended; the first exception is passed on.
void run_lanes(int lanes, const std::function<void(int lane)>& work);

/// Calls work(i) for every i in [0, count), in this order, each on the next of so many lanes that is free.
void share_out(std::size_t count, std::size_t lanes, const std::function<void(std::size_t i)>& work);

}  // namespace regard
