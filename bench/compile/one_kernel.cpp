// Compiles one kernel, or all kernels of a problem, in a process that has none, and prints wall time and peak
// memory as one line of JSON. bench/compile/cuda_kernels.py runs it once for each kernel or problem.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "regard/regard.hpp"

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: bench_compile KERNEL...\n");
    return 2;
  }
  try {
    const auto start = std::chrono::steady_clock::now();
    std::string prepared;
    for (int i = 1; i < count; ++i) prepared += (i > 1 ? ", " : "") + regard::prepare_kernel(arguments[i]);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    std::printf(R"({"seconds": %.3f, "peak_bytes": %ld, "prepared": [%s]})"
                "\n",
                taken.count(), used.ru_maxrss * 1024, prepared.c_str());
  } catch (const regard::error& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
  return 0;
}
