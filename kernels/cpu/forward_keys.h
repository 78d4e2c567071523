// Where the forward kernel finds the rows of K and V of a step: in place, or gathered from pages and
// converted from a cache's 8-bit type.
#pragma once

#include "kernels/cpu/cached_keys.h"
#include "kernels/cpu/forward_layout.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/prefetch.h"

namespace regard {

/// K and V of a step, from its first key on, in Q's type. Rows are `k_row` and `v_row` elements apart.
struct StepRows {
  const u8* k;
  i64 k_row;
  const u8* v;
  i64 v_row;
};

/// Whether rows may have to be gathered.
constexpr bool gathers = config::paged || config::kv != config::dtype || config::k_rope;

class ForwardKeys {
 public:
  /// `k` and `v`: memory for the rows of a step, if they are gathered.
  ForwardKeys(const Head& head, u8* k, u8* v) : k_(k), v_(v) {
    if constexpr (!gathers) whole_ = rows_of(head, key_run(head.arguments, head.sequence, 0));
  }

  /// The step at `first_key` with its `count` keys, of which some row sees `seen`.
  StepRows of_step(const Head& head, i64 first_key, i64 count, const SeenKeys& seen) const {
    if constexpr (!gathers) {
      return {row_address(whole_.k, whole_.k_row, first_key), whole_.k_row,
              row_address(whole_.v, whole_.v_row, first_key), whole_.v_row};
    } else {
      if (config::kv == config::dtype && !vectorized_pages && !config::k_rope &&
          in_one_page(head, first_key, count))
        return rows_of(head, key_run(head.arguments, head.sequence, first_key));
      gather_keys(k_, v_, head, first_key, count, seen);
      if constexpr (config::latent) return {k_, config::d, k_, config::d};
      return {k_, config::d, v_, config::dv};
    }
  }

  /// Whether of_step gathered them: keys that no row sees are then 0.
  bool gathered(const StepRows& rows) const { return rows.k == k_; }

  /// Prefetches the rows of some keys.
  static void fetch(Prefetcher& prefetcher, const Head& head, const SeenKeys& seen) {
    if constexpr (vectorized_pages) return;
    constexpr i64 bytes = bytes_of<config::kv>;
    const Arguments& a = head.arguments;
    for_each_run(head, seen, [&](i64, const KeyRun& run, i64 count) {
      constexpr i64 columns = config::k_rope ? config::dv : config::d;
      prefetcher.add(row_of_run(head, a.k, run), a.k.row * bytes, columns * bytes, count);
      if constexpr (config::k_rope)
        prefetcher.add(row_of_run<type_of_k_rope>(head, a.k_rope, run),
                       a.k_rope.row * bytes_of<type_of_k_rope>,
                       (config::d - config::dv) * bytes_of<type_of_k_rope>, count);
      if constexpr (!config::latent)
        prefetcher.add(row_of_run(head, a.v, run), a.v.row * bytes, config::dv * bytes, count);
    });
  }

 private:
  static StepRows rows_of(const Head& head, const KeyRun& run) {
    const Arguments& a = head.arguments;
    return {row_of_run(head, a.k, run), a.k.row, row_of_run(head, a.v, run), a.v.row};
  }
  static bool in_one_page(const Head& head, i64 first_key, i64 count) {
    const i64 page = head.arguments.cache.page, first = head.sequence.first_k + first_key;
    return page == 0 || first / page == (first + count - 1) / page;
  }

  u8 *k_, *v_;
  StepRows whole_;  // of the sequence
};

}  // namespace regard
