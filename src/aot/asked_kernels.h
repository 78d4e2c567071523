// The kernels that a manifest asks for on one target.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "aot/selection.h"
#include "plan/kernel_numbers.h"

namespace regard::aot {

class AskedKernels {
 public:
  void ask(std::uint64_t number, int line) { asked_.emplace_back(number, line); }
  /// Takes the kernel from the file instead of compiling it.
  void take(std::uint64_t number, const Manifest::Binary& binary);

  std::size_t count();
  /// Sorted by text. If `stop` becomes true, the list is incomplete.
  std::vector<Selection::Kernel> list(const KernelNumbers&, const std::string& target, bool (*stop)());

 private:
  /// Sorts by number, and removes duplicate lines.
  void sort();

  std::vector<std::pair<std::uint64_t, int>> asked_;  // numbers and manifest lines
  std::map<std::uint64_t, const Manifest::Binary*> binaries_;
};

}  // namespace regard::aot
