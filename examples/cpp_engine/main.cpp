// An engine that ships its kernels in a bundle next to the program, and never compiles.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regard/regard.hpp>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t query_heads = 8, key_heads = 2, dim = 96, keys = 128;

std::string beside_the_program(const char* name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name);
}

/// The tier of each kernel of the plan, from the plan's JSON.
std::string tiers(const regard::Plan& plan) {
  const std::string json = plan.json(), key = "\"tier\":\"";
  std::string found;
  for (std::size_t at = json.find(key); at != std::string::npos; at = json.find(key, at)) {
    at += key.size();
    found += (found.empty() ? "" : ", ") + json.substr(at, json.find('"', at) - at);
  }
  return found;
}

/// Attends to values that are all 1, so that O must be 1 everywhere.
bool attend(const char* text, std::int64_t queries) {
  const regard::Problem problem(text);
  regard::Plan plan(problem);
  plan.prepare();
  const std::uint16_t one = 0x3F80;  // in bf16
  std::vector<std::uint16_t> q(queries * query_heads * dim, one), k(keys * key_heads * dim, one), v(k),
      o(q.size());
  regard::Arguments arguments;
  arguments.set(REGARD_Q, regard::bf16(q.data(), {1, queries, query_heads, dim}));
  arguments.set(REGARD_K, regard::bf16(k.data(), {1, keys, key_heads, dim}));
  arguments.set(REGARD_V, regard::bf16(v.data(), {1, keys, key_heads, dim}));
  arguments.set(REGARD_O, regard::bf16(o.data(), {1, queries, query_heads, dim}));
  const regard::Workspace workspace(plan);
  plan.run(arguments, workspace.data(), workspace.bytes());
  const bool right = o == std::vector<std::uint16_t>(o.size(), one);
  std::printf("%s: %s, %s\n", text, tiers(plan).c_str(), right ? "right" : "WRONG");
  return right;
}

}  // namespace

int main() try {
  // Overrides the user's settings: the bundle's target, no compiler, no kernels that other programs have
  // cached.
  setenv("REGARD_CPU_TARGET", "cpu-avx2", 1);
  setenv("REGARD_JIT", "off", 1);
  setenv("REGARD_CACHE", "off", 1);
  regard::add_bundle(beside_the_program("engine.bundle"));
  const bool right = attend("fwd bf16 b=1 hq=8 hk=2 s=128 d=96 mask=causal", 128) &&
                     attend("fwd bf16 b=1 hq=8 hk=2 sq=1 sk=128 d=96", 1);
  try {
    attend("fwd bf16 b=1 hq=8 hk=2 s=128 d=96 mask=causal softcap=30", 128);
    return 1;
  } catch (const regard::error& error) {
    std::printf("not shipped: %s\n", error.what());
  }
  return right ? 0 : 1;
} catch (const regard::error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
