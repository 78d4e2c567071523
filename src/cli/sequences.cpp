#include "cli/sequences.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

#include "base/text.h"
#include "cli/failure.h"
#include "cli/random.h"

namespace regard::cli {
namespace {

using Lengths = std::vector<std::int64_t>;

constexpr std::uint64_t physical_stream = 1000, logical_stream = 1001;  // distinct from the roles of tensors

/// One side of the problem, with the words that its messages need.
struct Extent {
  std::string name;  ///< "q" or "k"
  std::int64_t b, longest, total;
  bool varlen, lengths;
  std::int64_t least = 0, added = 0;  ///< of a KV cache: -1, and new tokens after a length

  std::string limit() const {
    return added == 0 ? fmt::format("s{}={}", name, longest)
                      : fmt::format("s{}={} without {} new tokens", name, longest + added, added);
  }
};

void check_lengths(const Lengths& lengths, const Extent& extent) {
  if (static_cast<std::int64_t>(lengths.size()) != extent.b) {
    fail_with(fmt::format("--lengths-{} names {} sequences and the problem has b={}", extent.name,
                          lengths.size(), extent.b));
  }
  for (const std::int64_t length : lengths) {
    if (length >= extent.least && length <= extent.longest) continue;
    fail_with(fmt::format("--lengths-{} has {}, outside {} to {}; raise s{} to the longest", extent.name,
                          length, extent.least, extent.limit(), extent.name));
  }
}

/// More sequences than any user has, and few enough to be drawn in a second.
constexpr std::int64_t most_drawn = 1 << 24;

/// Memory for b numbers is allocated only where the user gave as many, or where they are few enough to be
/// drawn.
void check_count(const Extent& extent, const GivenSide& given) {
  const std::size_t numbers = std::max(given.lengths.size(), given.offsets.size());
  if (extent.b <= most_drawn || static_cast<std::int64_t>(numbers) >= extent.b) return;
  fail_with(fmt::format("b={} is more than {}, the most sequences whose lengths are drawn; use a smaller b",
                        extent.b, most_drawn));
}

/// Random lengths in [0, longest]; the first is the longest, so that the problem's s is reached.
Lengths draw_physical(const Extent& extent, std::uint64_t seed) {
  const Random random(seed, physical_stream);
  Lengths lengths(static_cast<std::size_t>(extent.b));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = i == 0 ? extent.longest : random.whole(i, extent.longest);
  }
  // A given total takes from or adds to the sequences in turn, the last first. A total equal to that of the
  // draw alone changes nothing: a problem with its tq printed draws the same again.
  if (extent.total == 0) return lengths;
  std::int64_t missing = extent.total - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length) {
    const std::int64_t change = std::clamp(missing, -*length, extent.longest - *length);
    *length += change;
    missing -= change;
  }
  return lengths;
}

std::vector<std::int32_t> cumulative(const Lengths& lengths, const Extent& extent) {
  std::vector<std::int32_t> offsets = {0};
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    sum += length;
    if (sum > INT32_MAX)
      fail_with(fmt::format("more than 2^31 tokens of {} do not fit int32 offsets", extent.name));
    offsets.push_back(static_cast<std::int32_t>(sum));
  }
  return offsets;
}

Side choose_side(const Extent& extent, const GivenSide& given, std::uint64_t seed) {
  Side side;
  if (!given.lengths.empty()) {
    if (!extent.varlen && !extent.lengths) {
      fail_with(fmt::format("--lengths-{} needs the word varlen or lengths in the problem", extent.name));
    }
    check_lengths(given.lengths, extent);
  }
  if (!extent.varlen && !extent.lengths) return side;  // b can be 10^9 where the rest is 0
  check_count(extent, given);
  Lengths physical(static_cast<std::size_t>(extent.b), extent.longest);
  if (extent.varlen) {
    if (!given.offsets.empty()) {
      side.offsets.assign(given.offsets.begin(), given.offsets.end());
      for (std::size_t i = 0; i < physical.size() && i + 1 < given.offsets.size(); ++i) {
        physical[i] = given.offsets[i + 1] - given.offsets[i];
      }
    } else {
      if (!extent.lengths && !given.lengths.empty()) {
        physical = given.lengths;
      } else if (given.lengths.empty() || extent.total != 0) {
        physical = draw_physical(extent, seed);
      }
      side.offsets = cumulative(physical, extent);
    }
  }
  if (extent.lengths) {
    const Random random(seed, logical_stream);
    for (std::size_t i = 0; i < physical.size(); ++i) {
      const std::int64_t most = std::max<std::int64_t>(std::min(physical[i], extent.longest), 0);
      side.lengths.push_back(
          static_cast<std::int32_t>(given.lengths.empty() ? random.whole(i, most) : given.lengths[i]));
    }
  }
  return side;
}

/// The rows of sequence i that are computed.
std::int64_t rows_of(const Side& side, std::int64_t longest, std::size_t i) {
  if (!side.lengths.empty()) return side.lengths[i];
  return side.offsets.empty() ? longest : side.offsets[i + 1] - side.offsets[i];
}

DrawnCache choose_cache(const Problem& problem, const Fields& fields, const Side& q, const GivenSide& k,
                        std::uint64_t seed) {
  const Tensor keys = problem.expected(REGARD_K).tensor;
  CacheSizes sizes;
  sizes.b = fields.b;
  sizes.sk = fields.sk;
  sizes.page = fields.paged;
  sizes.pages = keys.shape[0];
  sizes.cache = fields.cache > 0 || fields.slots ? keys.shape[0] : 0;
  sizes.snew = fields.snew;
  sizes.tnew = fields.tnew;
  sizes.lists = fields.lists;
  sizes.lengths = fields.lengths && !fields.lists;
  sizes.left_padding = fields.left_padding;
  sizes.slots = fields.slots;
  sizes.window_left = fields.window_left;
  sizes.sink_tokens = fields.sink_tokens;
  sizes.top_left = fields.top_left;
  if (fields.rope && !fields.given_positions)
    sizes.rope_rows = problem.expected(REGARD_ROPE_COS).tensor.shape[0];
  sizes.queries_follow = fields.masked;
  DrawnCache given;
  given.lengths.assign(k.lengths.begin(), k.lengths.end());
  std::vector<std::int64_t> queries;
  for (std::size_t i = 0; i < static_cast<std::size_t>(fields.b); ++i)
    queries.push_back(fields.pass == "fwd" ? rows_of(q, fields.sq, i) : 0);
  std::optional<DrawnCache> drawn = draw_cache(sizes, queries, seed, std::move(given));
  if (drawn) return std::move(*drawn);
  fail_with(
      fmt::format("the cache has {} {}, too few for new tokens of {} sequences, which must not share them; "
                  "raise {}",
                  keys.shape[0], fields.paged > 0 ? "pages" : "sequences", fields.b,
                  fields.paged > 0 ? "pages" : "cache"));
}

}  // namespace

std::vector<std::int64_t> parse_lengths(const std::string& text, const std::string& option) {
  std::vector<std::int64_t> numbers;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    std::int64_t number = 0;
    const auto [after, error] = std::from_chars(next, end, number);
    if (error != std::errc{} || (after != end && *after != ',')) {
      fail_with(fmt::format("{} takes lengths such as 5,0,17 or a file, not {}", option, in_quotes(text)));
    }
    numbers.push_back(number);
    if (after == end) return numbers;
    next = after + 1;
  }
}

Sequences choose_sequences(const Problem& problem, const GivenSide& q, const GivenSide& k,
                           std::uint64_t seed) {
  const Fields fields = fields_of(problem);
  const Extent queries{"q",       fields.b,      fields.sq,
                       fields.tq, fields.varlen, fields.lengths && fields.pass != "append"};
  Sequences sequences{choose_side(queries, q, seed), {}, {}};
  if (!fields.is_cache()) {
    sequences.k = choose_side(
        {"k", fields.b, fields.sk, fields.tk, fields.varlen && fields.pass != "merge", fields.lengths}, k,
        seed);
    return sequences;
  }
  const std::int64_t added = fields.slots ? 0 : fields.snew;
  const Extent keys{"k", fields.b, fields.sk - added, 0, false, fields.lengths && !fields.lists, -1, added};
  if (!k.lengths.empty()) {
    if (!keys.lengths) fail_with("--lengths-k needs the word lengths in the problem, and no list of pages");
    check_lengths(k.lengths, keys);
  }
  check_count(keys, k);
  sequences.cache = choose_cache(problem, fields, sequences.q, k, seed);
  sequences.k.lengths = sequences.cache.lengths;
  return sequences;
}

Problem with_sequences(const Problem& problem, const Sequences& sequences) {
  const Fields fields = fields_of(problem);
  const auto tokens = [](const Side& side, std::int64_t given) {
    return given != 0 || side.offsets.empty() ? given : std::int64_t{side.offsets.back()};
  };
  return with_tokens(problem, tokens(sequences.q, fields.tq), tokens(sequences.k, fields.tk));
}

double flops_of(const Problem& problem, const Sequences& sequences) {
  const Fields fields = fields_of(problem);
  const bool dense =
      sequences.q.offsets.empty() && sequences.q.lengths.empty() && sequences.cache.keys.empty();
  if (dense || fields.pass == "append" || fields.pass == "merge") return problem.flops();
  std::map<std::pair<std::int64_t, std::int64_t>, double> count;  // number of sequences of each size
  for (std::size_t i = 0; i < static_cast<std::size_t>(fields.b); ++i) {
    const std::int64_t keys =
        sequences.cache.keys.empty() ? rows_of(sequences.k, fields.sk, i) : sequences.cache.keys[i];
    count[{rows_of(sequences.q, fields.sq, i), keys}] += 1;
  }
  double total = 0;
  for (const auto& [size, times] : count) {
    if (size.first > 0 && size.second > 0) {
      total += times * one_sequence(problem, size.first, size.second).flops();
    }
  }
  return total;
}

}  // namespace regard::cli
