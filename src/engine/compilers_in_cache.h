// What compilers reported about themselves, as entries of the kernel cache: checked, evicted and listed like
// all others.
#pragma once

#include "cache/cache.h"
#include "compile/compiler_memory.h"

namespace regard {

class CompilersInCache final : public CompilerMemory {
 public:
  explicit CompilersInCache(Cache& cache) : cache_(cache) {}
  std::optional<std::string> recall(const std::string& question) override;
  void remember(const std::string& question, const std::string& identity) override;

 private:
  Cache& cache_;
};

}  // namespace regard
