// Kernels for CUDA targets as the tests' NVRTC compiles them: no GPU is needed to see spills.
#pragma once

#include <gtest/gtest.h>

#include "compile/render.h"
#include "compile/toolchain.h"

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

}  // namespace regard
