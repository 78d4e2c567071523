// From a manifest to kernels: exactly those that are built for each target, and which lines asked for them.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "aot/manifest.h"

namespace regard::aot {

struct Selection {
  struct Kernel {
    KernelKey key;
    std::string text;                          ///< of the key
    std::set<int> lines;                       ///< of the manifest, that asked for it
    const Manifest::Binary* binary = nullptr;  ///< the file that has it; null: it is compiled
  };
  struct OfTarget {
    const Target* target;
    std::size_t count = 0;        ///< of its kernels
    std::vector<Kernel> kernels;  ///< sorted by text, each once; empty where only counts were asked for
  };
  std::vector<OfTarget> targets;  ///< in the order of the manifest

  /// What one [[variants]] table comes to on one target.
  struct Count {
    std::size_t asked = 0;     ///< signatures or problems, without those that are excluded
    std::size_t kernels = 0;   ///< that it needs, of which other tables may need some as well
    std::size_t unserved = 0;  ///< signatures or problems that no kernel of the target takes
    std::string why;           ///< of the first of them
  };
  struct OfVariants {
    int line;
    std::string what;
    std::vector<Count> counts;  ///< in the order of the targets
  };
  std::vector<OfVariants> variants;

  std::vector<std::string> warnings;  ///< sentences: what is asked for in vain

  std::size_t count() const;
};

/// How much of a selection is needed: for a large one, counts alone take a small part of the memory and time.
enum class Detail : bool { counts, kernels };

/// The manifest must live as long. Errors: a table that no target of the manifest can do, a problem that none
/// solves, an exclusion that leaves nothing out, a binary for a kernel that no plan uses.
Result<Selection> select(const Manifest&, Detail = Detail::kernels);

/// For callers: the manifest's head, what each table comes to and each kernel.
std::string to_json(const Manifest&, const Selection&, Detail);

/// The kernels of a problem, whatever the machine: for every number of threads and, on a GPU, also those that
/// answer where tensors do not lie as tensor maps need it.
Result<std::vector<KernelKey>> kernels_of(const Problem&, const Target&);

}  // namespace regard::aot
