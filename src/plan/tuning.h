// Tuning records: which candidate was measured to be the fastest for a problem on a device (docs/tuning.md).
// Their text, a line of JSON each, and which of them apply to a problem.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problem/problem.h"

namespace regard {

// X(type, name, documentation): a record's members, declared once. Its struct, its text, its reader and the
// table of docs/tuning.md are derived from this list.
#define REGARD_TUNING_FIELDS(X)                                                                        \
  X(Number, tuning, "version of this format: 1")                                                       \
  X(Text, problem, "what was measured, as problem text; the record is for the bucket of this problem") \
  X(Text, target, "the target that it ran on")                                                         \
  X(Text, device, "the processor or GPU")                                                              \
  X(Number, threads, "on a CPU: how many threads; on a GPU 0")                                         \
  X(Text, candidate,                                                                                   \
    "the one to use, by its name in `regard explain`: the fastest, or the cost model's "               \
    "where no other is faster by more than the noise")                                                 \
  X(Text, by_cost, "the one that the cost model takes")                                                \
  X(Times, times, "the median time of each measured candidate, in milliseconds")                       \
  X(Digests, kernels, "the candidate's kernels, each with the SHA-256 of its source")                  \
  X(Text, version, "the version of Regard")                                                            \
  X(Text, date, "the day of the measurement")

struct TuningRecord {
  using Number = std::int64_t;
  using Text = std::string;
  using Times = std::map<std::string, double>;
  using Digests = std::map<std::string, std::string>;
#define REGARD_MEMBER(type, name, doc) type name{};
  REGARD_TUNING_FIELDS(REGARD_MEMBER)
#undef REGARD_MEMBER
  friend bool operator==(const TuningRecord&, const TuningRecord&) = default;
};

inline constexpr std::int64_t tuning_format = 1;

/// One line, without its end. parse_tuning reads it back.
std::string print(const TuningRecord&);
/// The rows of the table in docs/tuning.md.
std::string tuning_markdown();

/// A record as it was read.
struct TunedProblem {
  TuningRecord record;
  Problem bucket;
};

/// A record a line; empty lines are skipped. Strict: a member that is unknown, missing or of another type is
/// an error with file and line.
Result<std::vector<TunedProblem>> parse_tuning(std::string_view text, std::string_view file_name);

/// The bucket of a problem, as a problem: batch and lengths are rounded up to powers of two, and what follows
/// from them, or changes no choice (token counts, pages, the scale), has its default.
Problem bucket_of(const Problem&);

/// The records of that target whose buckets have the same problem but for batch and lengths, each at most a
/// factor of four away, the nearest first: by the sum of the powers of two between them. Of two for one
/// bucket the later one comes first.
std::vector<const TunedProblem*> nearest_records(std::span<const TunedProblem>, const Problem&,
                                                 std::string_view target);

}  // namespace regard
