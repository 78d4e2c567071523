// plan(problem, target): how a problem is solved. Pure: no file, no driver, no global state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/kernel_key.h"
#include "plan/target.h"
#include "problem/problem.h"

namespace regard {

enum class Family : std::uint8_t { forward, split_kv, backward };
std::string_view word(Family);

struct Kernel;

struct Stage {
  const Kernel* kernel = nullptr;
  KernelKey key;
  std::int64_t grid = 0;           ///< blocks, taken in order; none waits for one behind it
  std::int64_t scratch_bytes = 0;  ///< cpu: private memory of one thread
  std::int64_t shared_bytes = 0;   ///< gpu: dynamic shared memory of one block
  bool counts = false;    ///< gpu: it takes work from WorkspaceBuffer::counter, which is 0 when it begins
  bool overlaps = false;  ///< gpu: it may begin while the stage before ends, for which it waits itself
};

/// What lies in the workspace, in this order, each 64-byte aligned. 0 bytes = not needed.
enum class WorkspaceBuffer : std::uint8_t {
  partial_o,
  partial_lse,
  delta,
  grad_q_sum,
  grad_q_earlier,
  progress,
  grad_k_partial,
  grad_v_partial,
  grad_bias_partial,
  grad_bias_lost,
  counter,
  scratch,
  count
};

struct Workspace {
  std::array<std::int64_t, static_cast<std::size_t>(WorkspaceBuffer::count)> offset{}, bytes{};
  std::int64_t total = 0;
};

struct Plan {
  Problem problem;
  const Target* target = nullptr;
  Family family = Family::forward;
  bool generic = false;       ///< by the slower kernel that takes everything
  std::vector<Stage> stages;  ///< 1 to 3, run in order
  std::int64_t splits = 1;    ///< parts of the key range
  std::int64_t split_keys = 0;
  std::int64_t pack_gqa = 1;      ///< cpu forward: query heads of one K/V head whose rows share blocks
  std::int64_t block_rows = 0;    ///< cpu forward: query rows per block
  std::int64_t whole_blocks = 0;  ///< cpu forward: of all heads; the row blocks behind are cut in parts
  std::int64_t part_rows = 0;     ///< cpu forward: query rows of such a part; block_rows: none is cut
  std::int64_t key_blocks = 0;    ///< cpu, backward: steps that the keys of a head are walked in
  std::int64_t query_parts = 1;   ///< cpu, backward: parts of the queries
  std::int64_t part_queries = 0;  ///< cpu, backward: rows per part
  std::int64_t part_heads = 0;    ///< cpu, backward: query heads of a group per part
  bool parts_apart = false;       ///< cpu, backward: parts have blocks of their own
  std::int64_t side_by_side = 1;  ///< worked on at once: gpu: (batch, head) pairs; cpu: blocks
  std::int64_t pack_gqa_by_strides = 1;  ///< gpu: query heads of one row each that strides make rows of one
  std::int64_t before_last = INT32_MAX;  ///< sm90_forward: pairs that go side_by_side; the others together
  int threads = 1;  ///< how many blocks run at once: threads, which size the scratch, or a GPU's units
  Workspace workspace;
  double cost_seconds = 0;  ///< the cost model's estimate
};

struct PlanOptions {
  int threads = 1;                    ///< cpu
  std::string family;                 ///< empty: any; else only candidates of this family or kernel
  std::vector<std::string> disabled;  ///< families or kernels that must not be used
  bool strict = false;                ///< refuse a fall to a slower family
};

/// One candidate and what became of it.
struct Verdict {
  std::string candidate;  ///< its name, e.g. "cpu_decode + cpu_combine block_k=64"
  std::string stages;     ///< the name without the tile
  std::size_t rules_passed = 0;
  std::string rule;    ///< name of the rule that refused; empty when accepted
  std::string reason;  ///< why, and what would work; for an accepted one its estimated cost
  bool accepted = false, chosen = false;
};

struct Explanation {
  std::string problem, target;
  std::vector<Verdict> verdicts;
  /// The chosen plan.
  std::optional<Plan> plan;
  std::string refusal;  ///< the sentence, when nothing was accepted
};

/// The best plan, or a refusal whose message names the reasons. `explanation` may be null.
Result<Plan> plan(const Problem&, const Target&, const PlanOptions&, Explanation* explanation = nullptr);

/// What is known of a plan beyond itself, for its JSON; what is empty is left out.
struct PlanFacts {
  struct OfStage {
    std::string_view tier;
    std::string resources;  ///< of a GPU's kernel, as JSON
    std::optional<double> seconds;
  };
  std::vector<OfStage> stages;
  std::string_view fallback_reason;
  std::optional<std::int64_t> workspace_bytes;  ///< enough for the fallback too
};

std::string to_json(const Plan&, const PlanFacts& = {});
std::string to_json(const Explanation&, const PlanFacts& = {});
/// Refused candidates are grouped by recipe and rule, or, with `all`, have a line each.
std::string to_text(const Explanation&, bool all = false);

}  // namespace regard
