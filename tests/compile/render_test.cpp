// A rendered source is self-contained: it has all it needs, says how to compile it, and has unique names.
#include "compile/render.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/digest.h"
#include "base/embedded.h"
#include "base/text.h"
#include "compile/constants.h"
#include "compile/host_options.h"
#include "device/cpu/cpu.h"
#include "engine/bind.h"
#include "plan/recipe.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

std::vector<const Target*> cpu_targets() {
  std::vector<const Target*> found;
  for (const Target& target : targets().value()) {
    if (target.on_cpu()) found.push_back(&target);
  }
  return found;
}

/// The names of kernels/cpu/*.cpp.
std::vector<std::string> cpu_kernels() {
  std::vector<std::string> stems;
  for (const EmbeddedFile& file : embedded_files()) {
    const fs::path path(file.path);
    if (path.parent_path() == "kernels/cpu" && path.extension() == ".cpp")
      stems.push_back("cpu_" + path.stem().string());
  }
  return stems;
}

KernelKey key_of(std::string_view kernel, std::string_view target,
                 std::string_view signature = "fwd bf16 d=64") {
  KernelKey key;
  key.target = target;
  key.algorithm.kernel = kernel;
  key.algorithm.block_q = key.algorithm.block_k = 64;
  key.signature = parse_signature(signature).value();
  return key;
}

Rendered rendered(const KernelKey& key) {
  const Result<Rendered> result = render(key);
  if (!result) ADD_FAILURE() << print(key) << ": " << result.error().message;
  return result ? *result : Rendered();
}

/// The command in the first comment.
std::string command_of(const Rendered& kernel) {
  constexpr std::string_view comment = "// ";
  EXPECT_THAT(kernel.source, testing::StartsWith(comment));
  return kernel.source.substr(comment.size(), kernel.source.find('\n') - comment.size());
}

std::vector<std::string> files_read;

Result<std::string> data_file_with_a_note(std::string_view path) {
  files_read.emplace_back(path);
  return data_file(path);
}

TEST(Render, EveryCpuSourceOnEveryCpuTargetHoldsAllOurHeaders) {
  ASSERT_GE(cpu_kernels().size(), 5u);
  for (const Target* target : cpu_targets()) {
    for (const std::string& name : cpu_kernels()) {
      files_read.clear();
      const Kernel* kernel = find_kernel(name);
      ASSERT_NE(kernel, nullptr) << name;
      const Result<Rendered> whole = render(key_of(name, target->name), *kernel, data_file_with_a_note);
      ASSERT_TRUE(whole) << whole.error().message;
      std::istringstream source(whole->source);
      for (std::string line; std::getline(source, line);)
        EXPECT_THAT(line, Not(testing::ContainsRegex("^[ ]*#[ ]*(include[ ]*\"|pragma once)")))
            << name << " on " << target->name;
      EXPECT_EQ(std::set(files_read.begin(), files_read.end()).size(), files_read.size())
          << name << " has a file twice on " << target->name;
      EXPECT_THAT(files_read, testing::Contains("kernels/cpu/" + name.substr(name.find('_') + 1) + ".cpp"))
          << target->name;
    }
  }
}

TEST(Render, AnotherTargetIsAnotherSource) {
  for (const std::string& kernel : cpu_kernels()) {
    std::set<std::string> sources, blocks;
    for (const Target* target : cpu_targets()) {
      const KernelKey key = key_of(kernel, target->name);
      EXPECT_TRUE(sources.insert(rendered(key).source).second) << print(key);
      EXPECT_TRUE(blocks.insert(constants(key, *target)).second) << print(key);
    }
  }
}

TEST(Render, TheFirstCommentIsTheCommandWithTheTargetsOptions) {
  for (const Target* target : cpu_targets()) {
    const Rendered kernel = rendered(key_of("cpu_combine", target->name));
    std::vector<std::string> options(host_options.begin(), host_options.end());
    options.insert(options.end(), target->options.begin(), target->options.end());
    EXPECT_EQ(kernel.options, options) << target->name;
    EXPECT_EQ(command_of(kernel), fmt::format("c++ {} -shared -o {}.so {}.cpp", fmt::join(options, " "),
                                              kernel.symbol, kernel.symbol));
  }
}

TEST(Render, TheSecondCommentIsTheKey) {
  const KernelKey key = key_of("cpu_forward", "cpu-avx2", "fwd fp16 d=96 mask=window softcap");
  const std::string source = rendered(key).source;
  const std::size_t line = source.find('\n') + 1;
  const Result<KernelKey> read =
      parse_kernel_key(source.substr(line + 3, source.find('\n', line) - line - 3));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, key);
}

TEST(Render, AnotherKeyIsAnotherSymbolInANamespaceOfItsOwn) {
  std::set<std::string> symbols;
  const auto expect_new = [&](const KernelKey& key) {
    const Rendered kernel = rendered(key);
    EXPECT_TRUE(symbols.insert(kernel.symbol).second) << print(key);
    EXPECT_EQ(kernel.symbol, symbol_of(key)) << print(key);
    EXPECT_THAT(kernel.symbol,
                testing::MatchesRegex("regard_" + key.algorithm.kernel + "_[a-z0-9_]+_[0-9a-f]{16}"));
    EXPECT_LE(kernel.symbol.size(), 150U);
    EXPECT_THAT(kernel.source, HasSubstr("#define REGARD_SYMBOL " + kernel.symbol + "\n"));
    EXPECT_THAT(kernel.source, HasSubstr("#define regard " + kernel.symbol + "_kernel\n"));
  };
  const KernelKey key = key_of("cpu_forward", "cpu-avx2");
  expect_new(key);
  expect_new(key_of("cpu_forward", "cpu-avx512"));
  expect_new(key_of("cpu_decode", "cpu-avx2"));
  expect_new(key_of("cpu_forward", "cpu-avx2", "fwd bf16 d=64 softcap"));
  KernelKey other = key;
  other.algorithm.block_k = 96;
  expect_new(other);
}

TEST(Render, AKernelThatDoesNotExistIsNamed) {
  const Result<Rendered> kernel = render(key_of("cpu_forwrd", "cpu-avx2"));
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("'cpu_forwrd' is no kernel"));
  EXPECT_THAT(render(key_of("cpu_forward", "cpu-avx3")).error().message, HasSubstr("cpu-avx3"));
}

/// A kernel compiled by the command in its first comment, which promises to be enough, and loaded.
class CompiledByHand {
 public:
  explicit CompiledByHand(const Rendered& kernel) {
    const std::string path = folder_.path() + "/" + kernel.symbol;
    std::ofstream(path + ".cpp") << kernel.source;
    EXPECT_EQ(std::system(("cd '" + folder_.path() + "' && " + command_of(kernel)).c_str()), 0);
    library_ = dlopen((path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    if (library_ == nullptr) return;
    function = reinterpret_cast<cpu::KernelFunction>(dlsym(library_, kernel.symbol.c_str()));
  }
  ~CompiledByHand() {
    if (library_ != nullptr) dlclose(library_);
  }
  CompiledByHand(const CompiledByHand&) = delete;
  CompiledByHand& operator=(const CompiledByHand&) = delete;

  cpu::KernelFunction function = nullptr;

 private:
  TemporaryFolder folder_;
  void* library_ = nullptr;
};

/// The files of kernels/, with one more kernel.
Result<std::string> with_a_made_up_kernel(std::string_view path) {
  if (path == "kernels/cpu/made_up_schedule.h")
    return R"(#include "kernels/kernel_arguments.h"
namespace regard {
struct MadeUpSchedule {
  i64 number;
  float* part;
};
}
)";
  if (path == "kernels/cpu/made_up.cpp")
    return R"(#include "kernels/cpu/kernel.h"
#include "kernels/cpu/made_up_schedule.h"
REGARD_KERNEL(REGARD_SYMBOL) {
  const auto& a = static_cast<const regard::KernelArguments<regard::MadeUpSchedule>&>(*arguments);
  a.part[block] = static_cast<float>(a.number + a.sq);
}
)";
  return data_file(path);
}

struct MadeUpSchedule {
  i64 number = 0;
  float* part = nullptr;
};

const Kernel made_up{
    .name = "cpu_made_up", .depends_on = types_only, .schedule = {"MadeUpSchedule", sizeof(MadeUpSchedule)}};

/// Every kernel on every target of its kind.
std::vector<KernelKey> keys_of_all_kernels() {
  std::vector<KernelKey> keys;
  for (const Target& target : targets().value())
    for (const Kernel* kernel : kernels())
      if (has_kernels(target) && kernel->on_cpu() == target.on_cpu())
        keys.push_back(key_of(kernel->name, target.name, "fwd bf16 d=64 keep=kv<=q"));
  return keys;
}

TEST(Render, AFunctionIsTextOfTheTreeWithoutNames) {
  const std::string problem = "fwd bf16 d=64 keep=w[h]*float(kv)<cos(w[q-kv])&&segment[q]==segment[kv] ";
  const auto source_with = [&](const std::string& tensors) {
    Result<Rendered> made = render(key_of("portable_bits", "sm_80", problem + tensors));
    EXPECT_TRUE(made) << made.error().message;
    return made->source.substr(made->source.find("struct RowValues"));
  };
  const std::string source = source_with("tensors=w:fp32[1],segment:int32[1]");
  EXPECT_THAT(source, Not(HasSubstr("segment")));
  EXPECT_THAT(source, HasSubstr("of_reals<Operation::cos>("));
  EXPECT_THAT(source, HasSubstr("load<Type::integer>(call.tensors[1], {"));
  for (const char* kernel : {"portable_bits", "portable_ranges"})
    EXPECT_EQ(render(key_of(kernel, "sm_80")).error().message,
              "this kernel is compiled for a mask; its key has no keep");
  const Result<Rendered> ranges =
      render(key_of("portable_ranges", "sm_80", "fwd bf16 d=64 keep=kv<past[b] tensors=past:int32[1]"));
  ASSERT_TRUE(ranges) << ranges.error().message;
  const std::string range = ranges->source.substr(ranges->source.find("Range32 row_range("));
  EXPECT_THAT(range, Not(HasSubstr("past")));
  EXPECT_THAT(range, HasSubstr("load<Type::integer>(call.tensors[0], {"));
  EXPECT_EQ(render(key_of("portable_ranges", "sm_80", "fwd bf16 d=64 keep=kv!=q")).error().message,
            "a row may see several ranges of keys");
}

TEST(Render, AMadeUpKernelChangesNoOther) {
  std::size_t with_schedule = 0;
  for (const KernelKey& key : keys_of_all_kernels()) {
    const Kernel& kernel = *find_kernel(key.algorithm.kernel);
    const Rendered before = rendered(key);
    const Result<Rendered> after = render(key, kernel, with_a_made_up_kernel);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(after->source, before.source) << print(key);
    // A new number in another kernel's schedule would not change it either: it does not contain that one.
    for (const Kernel* other : kernels()) {
      const std::string_view type = other->schedule.type;
      if (type.empty() || type == split_keys_schedule.type || type == kernel.schedule.type) continue;
      EXPECT_THAT(before.source, Not(HasSubstr(type))) << print(key);
    }
    with_schedule += before.source.find("struct " + std::string(kernel.schedule.type)) != std::string::npos;
  }
  EXPECT_GE(with_schedule, 30u);

  const Result<Rendered> source =
      render(key_of("cpu_made_up", "cpu-generic"), made_up, with_a_made_up_kernel);
  ASSERT_TRUE(source) << source.error().message;
  const CompiledByHand kernel(*source);
  ASSERT_NE(kernel.function, nullptr);
  float numbers[3] = {};
  Schedule schedule(MadeUpSchedule{.number = 40});
  WorkspaceLayout workspace;
  schedule.point(&MadeUpSchedule::part, workspace.add("part", sizeof numbers));
  ASSERT_TRUE(workspace.lay_out());
  BoundArguments bound{};
  bound.shared.sq = 2;
  schedule.write(bound.schedule, workspace, numbers);
  for (long long block = 0; block < 3; ++block) kernel.function(&bound.shared, block, nullptr);
  EXPECT_THAT(numbers, testing::Each(42));
}

/// The files of kernels/ with other comments, and with more of them.
Result<std::string> with_other_comments(std::string_view path) {
  const Result<std::string> text = data_file(path);
  if (!text) return text;
  std::string other = "/* This was not\n\n   here before. */\n";
  for (const std::string_view line : split(*text, "\n")) {
    const std::size_t comment = line.find("//");
    const bool is_sentence = comment != std::string_view::npos && line.find('"') == std::string_view::npos;
    other += is_sentence ? fmt::format("{}// \"Another's\" sentence.\n\n", line.substr(0, comment))
                         : fmt::format("{}\n", line);
  }
  return other;
}

TEST(Render, AnotherCommentIsTheSameKernel) {
  for (const KernelKey& key : keys_of_all_kernels()) {
    const Rendered before = rendered(key);
    const Result<Rendered> after = render(key, *find_kernel(key.algorithm.kernel), with_other_comments);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(after->source, before.source) << print(key);
    EXPECT_EQ(sha256(after->source).hex(), sha256(before.source).hex()) << print(key);
  }
}

/// A line without the contents of its string literals.
std::string without_strings(const std::string& line) {
  std::string rest;
  bool inside = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (inside && line[i] == '\\') {
      ++i;
      continue;
    }
    if (line[i] == '"') inside = !inside;
    if (!inside) rest += line[i];
  }
  return rest;
}

TEST(Render, OnlyTheCommandAndTheKeyAreComments) {
  std::size_t lines = 0;
  for (const KernelKey& key : keys_of_all_kernels()) {
    const std::string text = rendered(key).source;
    std::istringstream source(text);
    std::string line;
    for (int i = 0; i < 2; ++i) {
      std::getline(source, line);
      EXPECT_THAT(line, testing::StartsWith("// ")) << print(key);
    }
    while (std::getline(source, line)) {
      ++lines;
      EXPECT_FALSE(line.empty() || line.ends_with(' ') || line.ends_with('\t')) << print(key);
      const std::string code = without_strings(line);
      EXPECT_EQ(code.find("//"), std::string::npos) << line << " in " << print(key);
      EXPECT_EQ(code.find("/*"), std::string::npos) << line << " in " << print(key);
    }
  }
  EXPECT_GT(lines, 10'000u);
}

TEST(Render, TheCommandCompilesTheSourceByHand) {
  EXPECT_NE(CompiledByHand(rendered(key_of("cpu_backward_delta", "cpu-generic", "bwd fp32 d=64"))).function,
            nullptr);
}

}  // namespace
}  // namespace regard
