#include "compile/quick_options.h"

namespace regard {
namespace {

// A third of the time, kernels of the same speed (docs/compile.md); functions marked REGARD_OPTIMIZE get -O2
// and bit-ccp again. With -O1 alone there would be no fused multiply-adds. All are known to every version
// since 10, the first with C++20.
constexpr std::string_view for_gcc[] = {"-O1",
                                        "-fexpensive-optimizations",
                                        "-fno-aggressive-loop-optimizations",
                                        "-fno-code-hoisting",
                                        "-fno-compare-elim",
                                        "-fno-cprop-registers",
                                        "-fno-crossjumping",
                                        "-fno-dse",
                                        "-fno-gcse",
                                        "-fno-if-conversion",
                                        "-fno-if-conversion2",
                                        "-fno-schedule-insns2",
                                        "-fno-store-merging",
                                        "-fno-thread-jumps",
                                        "-fno-tree-bit-ccp",
                                        "-fno-tree-dominator-opts",
                                        "-fno-tree-dse",
                                        "-fno-tree-pta",
                                        "-fno-tree-slp-vectorize",
                                        "-fno-tree-tail-merge"};

// A fifth to a third of the time; kernels are 1 % slower, generic ones 5 to 15 %.
constexpr std::string_view for_clang[] = {"-O1"};

}  // namespace

std::span<const std::string_view> quick_options(std::string_view compiler_identity) {
  if (compiler_identity.starts_with("gcc version ")) return for_gcc;
  if (compiler_identity.find("clang version ") != std::string_view::npos)
    return for_clang;  // Debian's, Apple's
  return {};
}

}  // namespace regard
