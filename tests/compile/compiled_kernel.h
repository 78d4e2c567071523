// Kernels for CUDA targets, compiled by the tests' NVRTC: spills show without a GPU.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/parallel_for.h"
#include "compile/render.h"
#include "compile/test_nvrtc.h"
#include "compile/toolchain.h"
#include "support/part.h"

namespace regard {

inline Result<Compiled> compiled(Toolchain& compiler, const KernelKey& key) {
  return render(key).and_then([&](const Rendered& kernel) {
    return compiler.compile({kernel.symbol, kernel.source, kernel.options});
  });
}

inline void expect_no_spills(const Result<Compiled>& kernel) {
  ASSERT_TRUE(kernel) << kernel.error().message;
  EXPECT_FALSE(kernel->resources->spills()) << kernel->log;
  EXPECT_EQ(kernel->resources->stack_bytes, 0) << kernel->log;
}

/// Compiles the keys that are in the part of this run, in as many threads as there are cores, and calls
/// `check` with each result.
template <class Check>
void each_compiled(std::vector<KernelKey> keys, Check check) {
  std::erase_if(keys, [](const KernelKey&) { return !test::takes_next_problem(); });
  ASSERT_FALSE(keys.empty());
  const std::unique_ptr<Toolchain> compiler = test_toolchain();
  std::vector<Result<Compiled>> kernels(keys.size());
  std::atomic<std::size_t> next{0};
  run_threads(static_cast<int>(std::thread::hardware_concurrency()), [&](int) {
    for (std::size_t i; (i = next.fetch_add(1)) < keys.size();) kernels[i] = compiled(*compiler, keys[i]);
  });
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SCOPED_TRACE(print(keys[i]));
    check(kernels[i]);
  }
}

inline void expect_none_spills(const std::vector<KernelKey>& keys) {
  each_compiled(keys, expect_no_spills);
}

}  // namespace regard
