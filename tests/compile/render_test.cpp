// A rendered source stands alone: it holds all it needs, says how it is compiled, and its names are its own.
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

#include "base/embedded.h"
#include "compile/constants.h"
#include "compile/host_options.h"
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

/// Names of kernels/cpu/*.cpp.
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

/// The command that the first comment holds.
std::string command_of(const Rendered& kernel) {
  constexpr std::string_view comment = "// ";
  EXPECT_THAT(kernel.source, testing::StartsWith(comment));
  return kernel.source.substr(comment.size(), kernel.source.find('\n') - comment.size());
}

TEST(Render, EveryCpuSourceOnEveryCpuTargetHoldsAllOurHeaders) {
  ASSERT_GE(cpu_kernels().size(), 5u);
  for (const Target* target : cpu_targets()) {
    for (const std::string& kernel : cpu_kernels()) {
      std::istringstream source(rendered(key_of(kernel, target->name)).source);
      std::set<std::string> files;
      for (std::string line; std::getline(source, line);) {
        EXPECT_THAT(line, Not(testing::ContainsRegex("^[ ]*#[ ]*(include[ ]*\"|pragma once)")))
            << kernel << " on " << target->name;
        const bool twice = line.starts_with("// ---- ") && !files.insert(line).second;
        EXPECT_FALSE(twice) << line << " in " << kernel;
      }
      EXPECT_THAT(files,
                  testing::Contains("// ---- kernels/cpu/" + kernel.substr(kernel.find('_') + 1) + ".cpp"))
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
    EXPECT_THAT(kernel.symbol, testing::MatchesRegex("regard_[0-9a-f]{16}"));
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

/// The comment's promise: this text alone, with that command, is the kernel.
TEST(Render, TheCommandCompilesTheSourceByHand) {
  const TemporaryFolder folder;
  const Rendered kernel = rendered(key_of("cpu_backward_delta", "cpu-generic", "bwd fp32 d=64"));
  const std::string path = folder.path() + "/" + kernel.symbol;
  std::ofstream(path + ".cpp") << kernel.source;
  EXPECT_EQ(std::system(("cd '" + folder.path() + "' && " + command_of(kernel)).c_str()), 0);

  void* library = dlopen((path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_NE(dlsym(library, kernel.symbol.c_str()), nullptr);
  dlclose(library);
}

}  // namespace
}  // namespace regard
