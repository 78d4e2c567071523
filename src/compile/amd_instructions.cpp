#include "compile/amd_instructions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/text.h"
#include "compile/amd_instruction.h"

namespace regard {
namespace {

struct Loop {
  std::int64_t begin, end;  ///< words of its first instruction and of the branch back to that
};

}  // namespace

Result<AmdInstructions> count_amd_instructions(std::span<const std::byte> code, std::string_view chip) {
  const std::optional<amd::Family> family = amd::family_of(chip);
  if (!family)
    return fail(ErrorKind::internal, fmt::format("instructions of {} are not known", in_quotes(chip)));

  std::vector<amd::Word> words(code.size() / sizeof(amd::Word) + 1);  // a zero at the end
  std::memcpy(words.data(), code.data(), code.size() / sizeof(amd::Word) * sizeof(amd::Word));
  const auto size = static_cast<std::int64_t>(words.size()) - 1;
  AmdInstructions counts;
  std::vector<std::int64_t> accumulator_moves, scalar_moves;
  std::vector<Loop> loops;
  std::int64_t at = 0;
  for (std::int64_t length; at < size; at += length) {
    const auto word = static_cast<std::size_t>(at);
    const amd::Instruction instruction{*family, words[word], words[word + 1]};
    length = static_cast<std::int64_t>(instruction.words());
    ++counts.all;
    counts.matrix += instruction.is_matrix();
    counts.flat += instruction.is_flat();
    if (instruction.moves_accumulators()) accumulator_moves.push_back(at);
    if (instruction.moves_scalars()) scalar_moves.push_back(at);
    if (const std::int64_t distance = instruction.branch(); distance < 0)
      loops.push_back({at + length + distance, at});
  }
  if (at != size || code.size() % sizeof(amd::Word) != 0)
    return fail(
        ErrorKind::internal,
        fmt::format("the machine code for {} is not understood: its last instruction is cut off", chip));

  const auto in_loops = [&](const std::vector<std::int64_t>& moves) {
    return std::ranges::count_if(moves, [&](std::int64_t move) {
      return std::ranges::any_of(loops, [&](const Loop& l) { return l.begin <= move && move <= l.end; });
    });
  };
  counts.accumulator_moves = in_loops(accumulator_moves);
  counts.scalar_moves = in_loops(scalar_moves);
  return counts;
}

}  // namespace regard
