// This test program's operator new, which counts.
#pragma once

#include <atomic>

extern std::atomic<bool> counting;
extern std::atomic<int> allocations;  ///< by operator new, while `counting`
