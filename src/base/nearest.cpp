#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/text.h"

namespace regard {
namespace {

/// Number of letters to insert, delete, replace or swap with their neighbour (swaps are the commonest slip).
/// Ignores case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto same = [](char x, char y) { return lower(x) == lower(y); };
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = ~std::size_t{0};
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string_view nearest_within(std::string_view word, std::span<const std::string_view> candidates,
                                std::size_t letters) {
  const auto is_shorter = [](std::string_view a, std::string_view b) { return a.size() < b.size(); };
  const auto longest = std::max_element(candidates.begin(), candidates.end(), is_shorter);
  // A word of megabytes is near to nothing, and finding that out would take long.
  const bool may_be_near = longest != candidates.end() && word.size() <= 2 * longest->size();
  const std::string_view best = may_be_near ? nearest(word, candidates) : std::string_view();
  const bool near = letters * edit_distance(word, best) <= std::max(word.size(), best.size());
  return near ? best : std::string_view();
}

std::string suggestion(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view best = nearest_within(word, candidates, 2);
  // Suggesting the very word that was written would not help: it is wrong for another reason.
  if (!word.empty() && best == word) return "";
  if (!best.empty()) return "; did you mean '" + std::string(best) + "'?";
  std::string text = "; one of: ";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(candidates[i]);
  }
  return text;
}

}  // namespace regard
