// Targets as data: their contents, and the message for a mistake in a file.
#include "plan/target.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/text.h"

namespace regard {
namespace {

using testing::HasSubstr;

TEST(Targets, AreAllThoseThatTheDesignNames) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all) << all.error().message;
  std::vector<std::string> names;
  for (const Target& target : *all) names.push_back(target.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "cpu-generic", "cpu-avx2", "cpu-avx512", "cpu-avx512bf16", "cpu-amx",
                         "cpu-amx-emulated", "cpu-neon", "cpu-neon-bf16", "sm_75", "sm_80", "sm_89", "sm_90",
                         "sm_90a", "sm_100", "sm_120", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201",
                         "gfx9-4-generic", "gfx11-generic", "gfx12-generic"));
}

TEST(Targets, CpuTargetsComeWidestFirst) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all);
  std::vector<std::string> cpu;
  for (const Target& target : *all) {
    if (target.on_cpu()) cpu.push_back(target.name);
  }
  EXPECT_THAT(cpu, testing::ElementsAre("cpu-amx", "cpu-avx512bf16", "cpu-avx512", "cpu-neon-bf16",
                                        "cpu-avx2", "cpu-neon", "cpu-generic", "cpu-amx-emulated"));
}

TEST(Targets, GpuTargetsHaveTheLimitsThatRulesNeed) {
  const Result<std::vector<Target>>& all = targets();
  ASSERT_TRUE(all);
  for (const Target& target : *all) {
    if (target.on_cpu()) continue;
    EXPECT_GT(target.shared_memory, 0) << target.name;
    EXPECT_GT(target.registers, 0) << target.name;
    EXPECT_TRUE(target.wave == 32 || target.wave == 64) << target.name;
    EXPECT_GT(target.units, 0) << target.name;
    EXPECT_FALSE(target.fragments.empty()) << target.name;
    for (DType dtype : target.dtypes) EXPECT_GT(target.gflops.at(dtype), 0) << target.name << word(dtype);
  }
}

TEST(Targets, AnUnknownNameNamesTheNearest) {
  const Result<const Target*> found = find_target("gfx924");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::invalid);
  EXPECT_THAT(found.error().message, HasSubstr("unknown target 'gfx924'; did you mean 'gfx942'?"));
}

TEST(Targets, AnUnknownChipOfAmdNamesTheTargetWhoseKernelsItRuns) {
  for (const auto& [name, target] :
       {std::pair{"gfx1101", "gfx11-generic"}, std::pair{"gfx1151:xnack-", "gfx11-generic"},
        std::pair{"gfx940", "gfx9-4-generic"}, std::pair{"gfx942:sramecc+:xnack-", "gfx942"}})
    EXPECT_EQ(find_target(name).error().message,
              fmt::format("unknown target '{}'; kernels for it are those of '{}'", name, target));
  EXPECT_THAT(find_target("gfx1030:xnack-").error().message, HasSubstr("; one of: "));
  EXPECT_THAT(find_target(":").error().message, HasSubstr("; one of: "));
}

constexpr std::string_view good = R"(doc = "d"
kind = "cpu"
preference = 1
dtypes = ["fp32"]
features = ["avx2"]
vector_bytes = 32

[[tiles]]
kernel = "cpu_forward"
dtypes = ["fp32"]
max_d = 64
max_dv = 64
block_q = 64
block_k = 192
)";

TEST(TargetFile, AGoodOneIsRead) {
  const Result<Target> target = parse_target(good, "targets/mine.toml");
  ASSERT_TRUE(target) << target.error().message;
  EXPECT_EQ(target->name, "mine");
  ASSERT_EQ(target->tiles.size(), 1u);
  EXPECT_EQ(target->tiles[0].algorithm.block_q, 64);
  EXPECT_EQ(target->tiles[0].line, 8);
}

TEST(TargetFile, ARowIsATileWithTheKeysAboveTheRows) {
  const Result<Target> target = parse_target(R"(doc = "d"
kind = "cuda"
preference = 1
dtypes = ["fp16", "bf16"]
wave = 32

[[tiles]]
kernel = "portable_forward"
dtypes = ["fp16", "bf16"]
max_dv = 64
warps = 4
block_k = 8
rows = [
  { max_d = 32, block_q = 16 },
  { max_d = 64, block_q = 32, stages = 2 },
]
)",
                                             "targets/mine.toml");
  ASSERT_TRUE(target) << target.error().message;
  std::vector<std::string> tiles;
  for (const Target::Tile& tile : target->tiles) {
    EXPECT_EQ(tile.algorithm.kernel, "portable_forward");
    EXPECT_EQ(tile.dtypes.size(), 2u);
    tiles.push_back(fmt::format("{} {} {} {} line {}", tile.max_d, tile.max_dv, tile.algorithm.block_q,
                                tile.algorithm.warps, tile.line));
    EXPECT_EQ(tile.algorithm.block_k, 8);
    EXPECT_EQ(tile.algorithm.stages, tile.max_d == 64 ? 2 : 0);
  }
  EXPECT_THAT(tiles, testing::ElementsAre("32 64 16 4 line 14", "64 64 32 4 line 15"));
}

TEST(TargetFile, AMistakeNamesFileLineAndTheNearestRightWord) {
  struct Case {
    std::string_view from, to, message;
  };
  const Case cases[] = {
      {"preference = 1", "prefrence = 1",
       "targets/mine.toml:3: unknown key 'prefrence'; did you mean 'preference'?"},
      {"preference = 1", "preference = \"high\"", "targets/mine.toml:3: 'preference' must be a whole number"},
      {"doc = \"d\"", "doc = 7", "targets/mine.toml:1: 'doc' must be a string"},
      {"kind = \"cpu\"", "kind = \"cuba\"", "targets/mine.toml:2: 'cuba' is no kind; did you mean 'cuda'?"},
      {"dtypes = [\"fp32\"]\nf", "dtypes = [\"fp23\"]\nf",
       "targets/mine.toml:4: 'fp23' is no value of 'dtypes'; did you mean 'fp32'?"},
      {"dtypes = [\"fp32\"]\nf", "dtypes = \"fp32\"\nf",
       "targets/mine.toml:4: 'dtypes' must be a list of strings"},
      {"\"avx2\"", "\"avx3\"",
       "targets/mine.toml:5: 'avx3' is no feature of a cpu target; did you mean 'avx2'?"},
      {"kind = \"cpu\"", "kind = \"hip\"\nwave = 64",
       "targets/mine.toml:6: 'avx2' is no feature of a hip target"},
      {"[\"avx2\"]", "\"avx2\"", "targets/mine.toml:5: 'features' must be a list of strings"},
      // Words from a file are shown with escapes, like those from callers.
      {"\"avx2\"", R"("av\u001bx3")", R"(targets/mine.toml:5: 'av\x1bx3' is no feature of a cpu target)"},
      {"kind = \"cpu\"", R"(kind = "c\u202epu")", R"(targets/mine.toml:2: 'c\u202epu' is no kind)"},
      {"dtypes = [\"fp32\"]\nf", "dtypes = [\"fp\\n32\"]\nf", R"(targets/mine.toml:4: 'fp\n32' is no value)"},
      {"block_q = 64", R"("blok\u0007q" = 64)", R"(targets/mine.toml:13: unknown key 'blok\x07q')"},
      {"block_q = 64", "block_q = \x1b[31m64\n", "targets/mine.toml:13: "},
      {"block_q = 64", "blok_q = 64", "targets/mine.toml:13: unknown key 'blok_q'; did you mean 'block_q'?"},
      {"block_q = 64", "block_q = -64", "targets/mine.toml:13: 'block_q' must not be negative"},
      {"\"cpu_forward\"", "\"cpu_forwards\"",
       "targets/mine.toml:9: 'cpu_forwards' is no kernel; did you mean 'cpu_forward'?"},
      {"max_d = 64\n", "", "targets/mine.toml:8: a tile needs kernel, dtypes, max_d and max_dv"},
      {"dtypes = [\"fp32\"]\nmax", "dtypes = [\"bf16\"]\nmax",
       "targets/mine.toml:8: a tile for bf16, which 'dtypes' of the target does not list"},
      {"cpu_forward", "sm90_forward",
       "targets/mine.toml:8: a tile for sm90_forward, which is no kernel for cpu targets"},
      {"block_q = 64", "rows = [\n  { block_q = 64 },\n  { blok_q = 64 },\n]",
       "targets/mine.toml:15: unknown key 'blok_q'; did you mean 'block_q'?"},
      {"block_q = 64", "rows = [\n  { block_q = 64 },\n  { kernel = \"cpu_forward\" },\n]",
       "targets/mine.toml:15: unknown key 'kernel'"},
      {"block_q = 64", "rows = [\n  { block_q = 64 },\n  { block_q = -64 },\n]",
       "targets/mine.toml:15: 'block_q' must not be negative"},
      {"block_q = 64", "rows = [\n  { block_q = 64 },\n  { block_k = 64 },\n]",
       "targets/mine.toml:15: 'block_k' is given above the rows as well"},
      // Each kernel has its own numbers.
      {"block_q = 64", "block_q = 64\nblock_d = 64",
       "targets/mine.toml:14: cpu_forward takes no 'block_d'; did you mean 'block_q'?"},
      {"block_q = 64", "rows = [\n  { block_q = 64 },\n  { block_q = 64, pack_gqa = 4 },\n]",
       "targets/mine.toml:15: cpu_forward takes no 'pack_gqa'; one of: block_q, block_k"},
      {"\"cpu_forward\"", "\"cpu_generic_forward\"",
       "targets/mine.toml:14: cpu_generic_forward takes no 'block_k'"},
      {"block_q = 64\n", "", "targets/mine.toml:8: a tile for cpu_forward needs block_q"},
      {"block_q = 64", "block_q = 0", "targets/mine.toml:8: a tile for cpu_forward needs block_q"},
      {"block_q = 64", "rows = [\n  { block_q = 64 },\n  { },\n]",
       "targets/mine.toml:15: a tile for cpu_forward needs block_q"},
      {"kernel = \"cpu_forward\"\n", "",
       "targets/mine.toml:8: a tile needs kernel, dtypes, max_d and max_dv"},
      {"kind = \"cpu\"", "kind = \"cuda\"", "targets/mine.toml:1: the key 'wave' is missing"},
      {"block_q = 64", "rows = []", "targets/mine.toml:13: 'rows' must be a row or more"},
      {"block_q = 64", "rows = 64", "targets/mine.toml:13: 'rows' must be a list of tables"},
      {"preference = 1\n", "", "targets/mine.toml:1: the key 'preference' is missing"},
      {"vector_bytes = 32", "gflops = { fp33 = 1.0 }",
       "targets/mine.toml:6: unknown key 'fp33'; did you mean 'fp32'?"},
      {"vector_bytes = 32", "gflops = { fp32 = \"fast\" }", "targets/mine.toml:6: 'fp32' must be a number"},
      {"vector_bytes = 32", "vector_bytes 32", "targets/mine.toml:6:"},
      {"vector_bytes = 32", "vector_bytes = 4294967328",
       "targets/mine.toml:6: 'vector_bytes' is 4294967328, but must be between 16 and 256"},
      {"vector_bytes = 32", "vector_bytes = 24",
       "targets/mine.toml:6: 'vector_bytes' is 24, but must be a power"},
      {"vector_bytes = 32", "vector_bytes = 64",
       "targets/mine.toml:6: 'vector_bytes' is 64, but must be 16 or 32 with the feature avx2"},
      {"[\"avx2\"]\nvector_bytes = 32", "[\"avx512\"]",
       "targets/mine.toml:1: 'vector_bytes' is 16, but must be 64 with the feature avx512"},
      {"vector_bytes = 32", "vector_registers = 65",
       "targets/mine.toml:6: 'vector_registers' is 65, but must be between 8 and 64"},
      {"vector_bytes = 32", "portable_share = { fwd = 0.5, bwd = 0.0 }",
       "targets/mine.toml:6: 'bwd' must be above 0, and at most 1"},
      {"vector_bytes = 32", "portable_share = { fwd = 1.01 }",
       "targets/mine.toml:6: 'fwd' must be above 0, and at most 1"},
      {"vector_bytes = 32", "portable_share = { fwt = 0.5 }",
       "targets/mine.toml:6: unknown key 'fwt'; did you mean 'fwd'?"},
      {"vector_bytes = 32", "portable_share = 0.5",
       "targets/mine.toml:6: 'portable_share' must be a table of shares by pass"},
      {"vector_bytes = 32", "wave = 0", "targets/mine.toml:6: 'wave' is 0, but must be between 1 and 128"},
      {"preference = 1", "preference = 1001",
       "targets/mine.toml:3: 'preference' is 1001, but must be between -1000 and 1000"},
      {"block_q = 64", "block_q = 16385",
       "targets/mine.toml:13: 'block_q' is 16385, but must be between 0 and 16384"},
  };
  for (const Case& c : cases) {
    std::string text(good);
    const std::size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, c.from.size(), c.to);
    const Result<Target> target = parse_target(text, "targets/mine.toml");
    ASSERT_FALSE(target) << c.to;
    EXPECT_EQ(target.error().kind, ErrorKind::invalid);
    EXPECT_THAT(target.error().message, HasSubstr(std::string(c.message)));
    EXPECT_EQ(target.error().message, printable(target.error().message));
  }
}

}  // namespace
}  // namespace regard
