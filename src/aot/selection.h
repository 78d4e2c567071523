// From a manifest to kernels: exactly those that are built for each target, and which lines asked for them.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "aot/manifest.h"

namespace regard::aot {

/// The error of a manifest whose kernels are no longer looked for.
tl::unexpected<Error> interruption_of_selection();

struct Selection {
  struct Kernel {
    KernelKey key;
    std::string text;                          ///< of the key
    std::set<int> lines;                       ///< of the manifest that asked for it
    const Manifest::Binary* binary = nullptr;  ///< the file that contains it; null: it is compiled
  };
  struct OfTarget {
    const Target* target;
    std::size_t count = 0;        ///< of its kernels
    std::vector<Kernel> kernels;  ///< sorted by text, each once; empty where only counts were asked for
  };
  std::vector<OfTarget> targets;  ///< in the order of the manifest

  /// What one [[variants]] table amounts to on one target.
  struct Count {
    std::size_t asked = 0;     ///< signatures or problems, without the excluded ones
    std::size_t kernels = 0;   ///< that it needs; other tables may need some of them as well
    std::size_t unserved = 0;  ///< signatures or problems that no kernel of the target accepts
    std::string why;           ///< of the first of them
  };
  struct OfVariants {
    int line;
    std::string what;
    std::vector<Count> counts;                     ///< in the order of the targets
    std::vector<const Manifest::Asked*> problems;  ///< without those that are excluded or for other targets
  };
  std::vector<OfVariants> variants;

  std::vector<std::string> warnings;  ///< sentences: requests that have no effect

  std::size_t count() const;
};

/// How much of a selection is needed: for a large one, counts alone take a small part of the memory and time.
enum class Detail : bool { counts, kernels };

/// The manifest must outlive the result. Errors: a table that none of the manifest's targets supports, a
/// problem that none solves, an exclusion that matches nothing, a binary for a kernel that no plan uses.
Result<Selection> select(const Manifest&, Detail = Detail::kernels);

/// For callers: the manifest's head, what each table amounts to, and each kernel.
std::string to_json(const Manifest&, const Selection&, Detail);

/// The kernels of a problem on any machine: for every number of threads and, on a GPU, also those used where
/// the layout of the tensors does not permit tensor maps. If there are tuning records for it, only the
/// kernels that these choose.
Result<std::vector<KernelKey>> keys_of_problem(const Problem&, const Target&,
                                               std::span<const TunedProblem> tuning = {});

}  // namespace regard::aot
