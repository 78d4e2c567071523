#include "kernels/backward_support.h"

#include <atomic>
#include <thread>

namespace regard::test::backward {

std::vector<Entry> product(const Texts& heads, const Texts& tails, const CaseOptions& options) {
  std::vector<Entry> entries;
  for (const std::string& head : heads)
    for (const std::string& tail : tails) entries.push_back({"bwd " + head + " " + tail, options});
  return entries;
}

void expect_right(const std::vector<Entry>& entries, const Texts& targets) {
  std::vector<Path> paths;
  for (const std::string& target : targets) paths.push_back({target, "backward", 1});
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next++) < entries.size();)
      test::expect_right_by_each(entries[i].text, paths, entries[i].options);
  };
  std::thread other(work);
  work();
  other.join();
}

void expect_same_bits(const std::string& text, const std::string& target, const std::vector<int>& threads) {
  const Path first{target, "backward", 1};
  if (is_gpu(target)) {
    const bool promised = text.find(" deterministic") != std::string::npos;
    test::expect_same_bits(promised ? text : text + " deterministic", first, first);
    return;
  }
  for (const int count : threads) test::expect_same_bits(text, first, {target, "backward", count});
}

}  // namespace regard::test::backward
