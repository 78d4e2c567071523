// What the host knows about a kernel: its host half, in the file in src/plan/kernels with the kernel's name.
// No other code refers to a kernel by its name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/arguments.h"
#include "kernels/split_keys.h"
#include "plan/plan.h"
#include "plan/rules.h"
#include "plan/tensor_box.h"

namespace regard {

/// forward, decode, backward: element types, head dimensions and the features that add code to the inner
/// loop. Lengths, offsets, diagonals, LSE, sinks, strides and the type of a bias are read at run time.
Signature inner_loop_on_cpu(const Signature&);
/// The same, and how K and V are stored.
Signature forward_on_cpu(const Signature&);
/// The same plus the type of a bias, whose elements are held in registers there.
Signature inner_loop_on_gpu(const Signature&);
/// The same, where one code reads bits, ranges and, besides them, any positional mask or none.
Signature backward_on_hopper(const Signature&);
/// inner_loop_on_gpu, and whether a row's bits may depend on its neighbours.
Signature inner_loop_on_hopper(const Signature&);
/// inner_loop_on_gpu plus the type of K and V, their layout in pages, and whether keys have factors of their
/// own. Page sizes and tables are read at run time. Keys of another type than Q's are found as those in pages
/// are.
Signature inner_loop_on_cache(const Signature&);
/// inner_loop_on_cache, where dense keys are found as those in pages are, too.
Signature decode_on_gpu(const Signature&);
/// A kernel that only writes: the type of the output; and in merge, that of the parts.
Signature output_type(const Signature&);
/// The same, and whether each sequence has the number of parts that its length gives.
Signature output_and_parts(const Signature&);
/// Element types; the rest is read at run time.
Signature types_only(const Signature&);
/// New tokens of a cache: the types of K and V, and of what is written.
Signature cache_types(const Signature&);
/// The same, read at run time.
Signature append_alone(const Signature&);
/// Everything but the pass is read at run time.
Signature pass_only(const Signature&);
/// What plans depend on, whatever the shape: what kernels depend on, and what rules ask for.
Signature of_plans(const Signature&);

inline std::span<const Rule> no_rules() {
  return {};
}

/// A number of a stage's schedule, for people and for JSON.
struct ScheduleNumber {
  std::string_view name;
  std::int64_t value;
};

/// The struct of a kernel's own numbers in its source: `type` has `bytes` (plan/schedule.h).
struct KernelSchedule {
  std::string_view type = {};  ///< empty: the kernel has no numbers
  std::size_t bytes = 0;
  std::vector<ScheduleNumber> (*numbers)(const Schedule&) = nullptr;  ///< those worth reporting; null: none
};

/// For kernels that take, or merge, parts of the keys and have no other numbers.
inline constexpr KernelSchedule split_keys_schedule{"SplitKeys", sizeof(SplitKeys)};

struct Kernel {
  /// Folder and stem of its source: "sm90_forward" is kernels/sm90/forward.cu.
  std::string_view name;
  std::span<const Feature> features = {};  ///< what a target must have
  /// What its code depends on; it reads everything else at run time.
  Signature (*depends_on)(const Signature&);
  KernelSchedule schedule = {};
  /// Numbers that a tile of it in targets/*.toml must have, and those that it can have; no others.
  std::span<const AlgorithmField> required = {}, optional = {};
  std::span<const Rule> (*rules)() = no_rules;  ///< its own, after the general ones

  /// The expected time of a stage, without the launch; null: too little to count.
  double (*seconds)(const Plan&, const Stage&) = nullptr;
  /// gpu: what a launch requests, in addition to the shared memory that the code declares; null: nothing.
  std::int64_t (*dynamic_shared_bytes)(const KernelKey&) = nullptr;
  /// All keys that shapes of the question's signature can need, derived from that of the tile; null: only
  /// that one.
  std::vector<KernelKey> (*variants)(const Question&, const KernelKey&) = nullptr;
  /// gpu: the boxes of memory that it loads and stores through tensor maps, which are its first parameters,
  /// or why these tensors cannot be described so. null: it takes no maps.
  Result<TensorBoxes> (*boxes)(const Plan&, const Stage&, const Arguments&) = nullptr;

  std::string_view folder() const { return name.substr(0, name.find('_')); }
  bool on_cpu() const { return folder() == "cpu"; }
  /// One kernel for every signature of a pass: the slower one that takes everything.
  bool is_generic() const { return depends_on == pass_only; }
  std::string_view stem() const { return name.substr(name.find('_') + 1); }
};

/// Every kernel that is a stage of some plan.
std::span<const Kernel* const> kernels();
std::span<const std::string_view> kernel_names();
/// nullptr for an unknown name.
const Kernel* find_kernel(std::string_view name);

}  // namespace regard
