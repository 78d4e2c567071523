#include "sequences.h"

#include <algorithm>

#include "lengths.h"
#include "refusal.h"

namespace aiter {
namespace {

using calls::refuse;

std::string named(const char* field, char letter) {
  return std::string(field) + "_" + letter + "_ptr";
}

}  // namespace

Sequences::Sequences(const Lengths& lengths, bool varlen, std::int64_t batch, void* stream)
    : queries_(lengths.letter == 'q'),
      varlen_(varlen),
      seqstart_(lengths.seqstart),
      rows_(lengths.dense_rows) {
  const std::string seqstart = named("seqstart", lengths.letter), seqlen = named("seqlen", lengths.letter);
  if (batch < 0) refuse(TE_REGARD_INVALID, "batch is negative");
  if (varlen && seqstart_ == nullptr)
    refuse(TE_REGARD_INVALID, "group mode needs " + seqstart + ", int32 [batch + 1]");
  if (!varlen && seqstart_ != nullptr)
    refuse(TE_REGARD_INVALID, seqstart + " is for group mode; set is_group_mode, or leave it null");
  if (lengths.seqlen != nullptr && lengths.cu_seqlen != nullptr) {
    refuse(TE_REGARD_INVALID, seqlen + " and " + named("cu_seqlen", lengths.letter) +
                                  " say the same in two ways; give one of them");
  }
  if (varlen) {
    const std::vector<std::int32_t> starts =
        calls::host_copy(seqstart_, static_cast<std::uint64_t>(batch) + 1, stream);
    for (std::size_t i = 1; i < starts.size(); ++i) rooms_.push_back(starts[i] - starts[i - 1]);
    const bool rising =
        std::all_of(rooms_.begin(), rooms_.end(), [](std::int32_t room) { return room >= 0; });
    if (starts[0] != 0 || !rising) refuse(TE_REGARD_INVALID, seqstart + " does not rise from 0");
    tokens_ = starts.back();
    rows_ = rooms_.empty() ? 0 : *std::max_element(rooms_.begin(), rooms_.end());
  } else {
    rooms_.assign(static_cast<std::size_t>(batch), static_cast<std::int32_t>(rows_));
  }
  count(lengths, batch, stream);
  const std::vector<std::int32_t>& counts = counts_.empty() ? rooms_ : counts_;
  const std::int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  if (lengths.longest >= 0 && lengths.longest < longest) {
    refuse(TE_REGARD_INVALID, std::string("max_seqlen_") + lengths.letter + "=" +
                                  std::to_string(lengths.longest) + " is less than a sequence of " +
                                  std::to_string(longest));
  }
}

void Sequences::count(const Lengths& lengths, std::int64_t batch, void* stream) {
  const auto b = static_cast<std::uint64_t>(batch);
  if (lengths.seqlen != nullptr && !varlen_) {
    counts_in_place_ = lengths.seqlen;  // of a cache: read in place, so that nothing waits
  } else if (lengths.seqlen != nullptr) {
    counts_ = calls::host_copy(lengths.seqlen, b, stream);
  } else if (lengths.cu_seqlen != nullptr && lengths.cu_seqlen != seqstart_) {
    counts_ = calls::lengths_of(lengths.cu_seqlen, b, stream);
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] < 0 || counts_[i] > rooms_[i]) {
      refuse(TE_REGARD_INVALID, std::string("sequence ") + std::to_string(i) + " counts " +
                                    std::to_string(counts_[i]) + " rows of the " + std::to_string(rooms_[i]) +
                                    " that " + lengths.letter + " has for it");
    }
  }
}

void Sequences::set(calls::Call& call) const {
  if (varlen_) call.set(queries_ ? TE_REGARD_OFFSETS_Q : TE_REGARD_OFFSETS_K, seqstart_);
  const te_regard_role lengths = queries_ ? TE_REGARD_LENGTHS_Q : TE_REGARD_LENGTHS_K;
  if (!counts_.empty()) call.set_own(lengths, counts_);
  if (counts_in_place_ != nullptr) call.set(lengths, counts_in_place_);
}

void Sequences::set_tokens(calls::Call& call, te_regard_role role, const void* data, std::int64_t row,
                           std::int64_t head, std::int64_t batch) const {
  if (varlen_) {
    call.set(role, data, {row, head});
  } else {
    call.set(role, data, {batch, row, head});
  }
}

}  // namespace aiter
