// KernelKey -> one self-contained source: the command that compiles it by hand, the key as constants, then
// the algorithm with our own headers inlined. Exactly this text is compiled, so its hash is the identity; its
// only comments are the command and the key, so that editing comments does not change it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/kernel.h"
#include "plan/kernel_key.h"
#include "plan/target.h"

namespace regard {

struct Rendered {
  std::string source;
  std::vector<std::string> options;  ///< compiler options of the target, canonical order
  std::string symbol;                ///< the entry point, by which profilers know the kernel (symbol_of)
};

Result<Rendered> render(const KernelKey&);
/// Returns a file by its path, as data_file does (base/embedded.h).
using ReadFile = Result<std::string>(std::string_view path);
/// The same for a kernel that no recipe names.
Result<Rendered> render(const KernelKey&, const Kernel&, ReadFile*);

/// The entry point's name, without rendering: kernel, signature, and 16 hex digits of the hash of the key's
/// text, as in "regard_cpu_forward_fwd_fp32_d_72_mask_window_d733c5bed9495270".
std::string symbol_of(const KernelKey&);

}  // namespace regard
