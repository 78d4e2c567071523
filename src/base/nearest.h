// "unknown word 'causl'; did you mean 'causal'?": every strict parser here names the nearest right word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace regard {

/// The candidate with the smallest edit distance to `word`; empty when `candidates` is empty.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// "; did you mean 'x'?" or, when nothing is near, "; one of: a, b, c": what to append to a refusal.
std::string suggestion(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace regard
