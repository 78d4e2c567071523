// "unknown word 'causl'; did you mean 'causal'?": every strict parser here suggests the nearest valid word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace regard {

/// The candidate with the smallest edit distance to `word`; empty when `candidates` is empty.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// The same where at most one in so many letters of the longer word is wrong; empty where none is that near.
std::string_view nearest_within(std::string_view word, std::span<const std::string_view> candidates,
                                std::size_t letters);

/// "; did you mean 'x'?" or, when nothing is near, "; one of: a, b, c": the end of a refusal.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace regard
