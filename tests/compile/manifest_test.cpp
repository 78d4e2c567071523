// Manifests of cache entries, which anyone may have written.
#include "compile/manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace regard {
namespace {

using nlohmann::json;

const json resources = {{"registers", 32},     {"stack_bytes", 0},       {"spill_bytes", 0},
                        {"waves", 3},          {"shared_bytes", 1024},   {"barriers", 1},
                        {"matrix", 0},         {"accumulators", 64},     {"accumulator_moves", 2},
                        {"scalar_moves", 1},   {"scalar_registers", 40}, {"scalar_spills", 8},
                        {"warnings", {"slow"}}};
/// The first versions wrote no others.
const std::set<std::string> always = {"registers",    "stack_bytes", "spill_bytes",
                                      "shared_bytes", "barriers",    "warnings"};

Manifest with(const json& some) {
  return Manifest(json{{"kernel", "k"}, {"resources", some}}.dump());
}

TEST(Manifest, ResourcesAreReadBack) {
  const std::optional<Resources> read = with(resources).resources;
  ASSERT_TRUE(read);
  EXPECT_EQ(json::parse(resources_json(*read)), resources);
}

TEST(Manifest, WhateverIsOddReadsAsEmpty) {
  for (const auto& [name, value] : resources.items()) {
    for (const json& odd : {json("x"), json(nullptr), json(1.5), json::array({1}), json::object()}) {
      json changed = resources;
      changed[name] = odd;
      EXPECT_FALSE(with(changed).resources) << changed;
      EXPECT_EQ(with(changed).kernel, "k");
    }
    json without = resources;
    without.erase(name);
    EXPECT_EQ(with(without).resources.has_value(), !always.contains(name)) << without;
  }
  EXPECT_FALSE(with(json::array()).resources);
  EXPECT_EQ(Manifest(R"({"kernel": 5})").kernel, "");
  EXPECT_EQ(Manifest("[]").kernel, "");
  EXPECT_EQ(Manifest("{\"kernel\": \"k\", \"more\": " + std::string(1'000'000, '[')).kernel, "");
}

}  // namespace
}  // namespace regard
