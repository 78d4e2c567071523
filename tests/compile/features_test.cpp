// The names by which code asks for features of a target: none is misspelled, and none is declared but unused.
#include "plan/feature.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "compile/constants.h"
#include "generated_docs.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using Words = std::set<std::string>;

constexpr TargetKind all_kinds[] = {TargetKind::cpu, TargetKind::cuda, TargetKind::hip};

void add_matches(const std::string& text, const char* pattern, Words& words) {
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    words.insert((*match)[1]);
}

/// For each file of a folder, such as "kernels/cpu/exp.h": the words that the pattern's group matches there.
std::map<std::string, Words> words_in(const char* folder, const char* pattern) {
  std::map<std::string, Words> found;
  const fs::path root(REGARD_SOURCE_DIR);
  for (const auto& item : fs::recursive_directory_iterator(root / folder)) {
    if (!item.is_regular_file()) continue;
    std::ifstream file(item.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    add_matches(text, pattern, found[fs::relative(item.path(), root).generic_string()]);
  }
  return found;
}

std::map<std::string, Words> asked_by_kernels() {
  return words_in("kernels", "\\btarget::(\\w+)");
}

/// The kinds of target that a file of kernels/ is compiled for.
std::vector<TargetKind> kinds_of(const std::string& path) {
  const auto in = [&path](const char* folder) { return path.find(folder) != std::string::npos; };
  if (in("/cpu/")) return {TargetKind::cpu};
  if (in("/cuda/") || in("/sm90/")) return {TargetKind::cuda};
  if (in("/hip/")) return {TargetKind::hip};
  if (in("/portable/")) return {TargetKind::cuda, TargetKind::hip};
  return {std::begin(all_kinds), std::end(all_kinds)};
}

/// The members of `target::` in kernels for a kind of target: features and numbers.
Words declared_for(TargetKind kind) {
  Target target;
  target.kind = kind;
  const std::string text = constants(KernelKey(), target);
  Words words;
  add_matches(text.substr(text.find("namespace target {")), "(\\w+) = ", words);
  return words;
}

TEST(Features, KernelsAskForDeclaredOnes) {
  for (const auto& [path, words] : asked_by_kernels()) {
    for (const TargetKind kind : kinds_of(path)) {
      const Words declared = declared_for(kind);
      for (const std::string& name : words)
        EXPECT_TRUE(declared.contains(name))
            << path << " asks for target::" << name << ", which " << word(kind) << " targets do not have";
    }
  }
}

TEST(Features, EachIsAskedFor) {
  Words asked;
  for (auto& [path, words] : words_in("src", "\\bFeature::(\\w+)"))
    if (path.find("plan/feature.") == std::string::npos) asked.merge(words);
  Words declared;
  for (const TargetKind kind : all_kinds) {
    const Words of_kind = declared_for(kind);
    declared.insert(of_kind.begin(), of_kind.end());
    for (const auto& [path, words] : asked_by_kernels()) {
      const std::vector<TargetKind> kinds = kinds_of(path);
      if (std::ranges::find(kinds, kind) == kinds.end()) continue;
      for (const std::string& name : words)
        if (of_kind.contains(name)) asked.insert(name);
    }
  }
  for (const std::string& name : declared) EXPECT_TRUE(asked.contains(name)) << "no code asks for " << name;
}

TEST(Features, EachIsSupportedBySomeTarget) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all) << all.error().message;
  for (const TargetKind kind : all_kinds)
    for (const Feature feature : features_of(kind))
      EXPECT_TRUE(std::ranges::any_of(*all, [&](const Target& target) { return target.has(feature); }))
          << word(feature);
}

TEST(Features, AreDocumented) {
  std::string table = "| feature | of targets | what it says |\n|---|---|---|\n";
  const auto add = [&table](const char* name, const std::string& kinds, const char* doc) {
    table +=
        fmt::format("| `{}` | {} | {} |\n", name, std::regex_replace(kinds, std::regex(" \\|"), ","), doc);
  };
#define REGARD_ROW(name, kinds, doc) add(#name, #kinds, doc);
  REGARD_FEATURES(REGARD_ROW)
#undef REGARD_ROW
  expect_generated_docs("targets.md", table);
}

}  // namespace
}  // namespace regard
