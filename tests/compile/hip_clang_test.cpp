// Uses the real clangs that there are; the tests of the search and of its messages need none.
#include "compile/hip_clang.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/elf.h"
#include "base/embedded.h"
#include "compile/amd_instructions.h"
#include "compile/amd_resources.h"
#include "compile/clang_version.h"
#include "compile/compiler_run.h"
#include "compile/hip_options.h"
#include "compile/kernel_entry.h"
#include "compile/manifest.h"
#include "compile/process.h"
#include "compile/render.h"
#include "plan/kernel.h"
#include "support/temporary_folder.h"

namespace regard {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string path() {
  return std::getenv("PATH");
}

std::vector<const Target*> hip_targets() {
  std::vector<const Target*> found;
  for (const Target& target : targets().value())
    if (target.kind == TargetKind::hip) found.push_back(&target);
  return found;
}

CompileRequest request(const std::string& name, const std::string& source, const Target& target) {
  CompileRequest made{name, source, {hip_options.begin(), hip_options.end()}};
  made.options.insert(made.options.end(), target.options.begin(), target.options.end());
  return made;
}

// One product of matrices, with the instruction of each family.
const std::string product = R"(
using Half4 = _Float16 __attribute__((vector_size(8)));
using Half8 = _Float16 __attribute__((vector_size(16)));
using Half16 = _Float16 __attribute__((vector_size(32)));
using Float4 = float __attribute__((vector_size(16)));
using Float8 = float __attribute__((vector_size(32)));
#if defined(__GFX9__)
using Operand = Half4;
using Sums = Float4;
#define PRODUCT(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)
#elif defined(__GFX11__)
using Operand = Half16;
using Sums = Float8;
#define PRODUCT(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
#else
using Operand = Half8;
using Sums = Float8;
#define PRODUCT(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)
#endif
extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64))) void product(
    const Operand* a, const Operand* b, Sums* c, int steps) {
  __attribute__((shared)) static Operand tile[64];
  const int lane = __builtin_amdgcn_workitem_id_x();
  Sums sums = {};
  for (int i = 0; i < steps; ++i) {
    tile[lane] = b[64 * i + lane];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    sums = PRODUCT(a[64 * i + lane], tile[lane ^ 1], sums);
  }
  c[lane] = sums;
}
)";

class HipClang : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (find_program(GetParam(), path()).empty()) GTEST_SKIP() << "there is no " << GetParam();
    Result<std::unique_ptr<Toolchain>> found = find_hip_clang({.setting = GetParam(), .path = path()});
    ASSERT_TRUE(found) << found.error().message;
    clang_ = std::move(*found);
  }
  bool knows(const Target& target) const {
    return clang_version(clang_->identity()) >= 20 ||
           (target.name != "gfx950" && !target.name.ends_with("-generic"));
  }
  Result<Compiled> compiled(const std::string& name, const std::string& source, const Target& target) const {
    return clang_->compile(request(name, source, target));
  }
  Resources resources(const std::string& source, std::string_view target) const {
    const Result<Compiled> made = compiled("kernel", source, **find_target(target));
    if (!made) ADD_FAILURE() << made.error().message;
    return made ? *made->resources : Resources();
  }
  std::unique_ptr<Toolchain> clang_;
};

TEST_P(HipClang, CompilesForEachTargetThatItKnows) {
  ASSERT_EQ(hip_targets().size(), 8u);
  for (const Target* target : hip_targets()) {
    SCOPED_TRACE(target->name);
    const Result<Compiled> made = compiled("product", product, *target);
    if (!knows(*target)) {
      ASSERT_FALSE(made);
      EXPECT_THAT(made.error().message, HasSubstr(fmt::format("is clang 19, and kernels for {} need clang 20 "
                                                              "or later",
                                                              target->name)));
      continue;
    }
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->log, "");
    EXPECT_TRUE(find_function(made->binary, SHT_DYNSYM, "product"));
    EXPECT_EQ(amd_resources(made->binary, "gfx803").error().message,
              fmt::format("the compiler's code object is for {}, not for gfx803", target->name));
    EXPECT_EQ(compiled("product", product, *target).value().binary, made->binary)
        << "another folder, other bytes";
    const Resources& used = *made->resources;
    EXPECT_EQ(used.matrix, 1);
    EXPECT_GE(used.registers, 8);
    EXPECT_LT(used.registers, 128);
    EXPECT_GT(used.scalar_registers, 0);
    EXPECT_EQ(used.shared_bytes, 64 * (target->wave == 64 ? 8 : target->name.starts_with("gfx11") ? 32 : 16));
    EXPECT_FALSE(used.spills());
    EXPECT_EQ(used.stack_bytes, 0);
    EXPECT_THAT(used.performance_warnings, IsEmpty());
  }
}

TEST_P(HipClang, ReportsWhatSlowsAKernelDown) {
  // An index that is not known makes an array of memory.
  const Resources stack = resources(R"(
extern "C" __attribute__((global)) void kernel(int* p, int n) {
  int all[64];
  for (int i = 0; i < 64; ++i) all[i] = p[i * n];
  for (int i = 0; i < n; ++i) all[p[i] & 63] += all[p[i + n] & 63];
  for (int i = 0; i < 64; ++i) p[i] = all[i];
})",
                                    "gfx942");
  EXPECT_GT(stack.stack_bytes, 0);
  EXPECT_FALSE(stack.spills());

  const std::string crowded = R"(
extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256), amdgpu_waves_per_eu(8, 8)))
void kernel(float* p, int n) {
  const int lane = __builtin_amdgcn_workitem_id_x();
  float all[160];
#pragma unroll
  for (int i = 0; i < 160; ++i) all[i] = p[256 * i + lane];
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 160; ++i) all[i] = all[i] * all[(7 * i + 3) % 160] + 1.5f;
  }
#pragma unroll
  for (int i = 0; i < 160; ++i) p[256 * i + lane] = all[i];
})";
  EXPECT_TRUE(resources(crowded, "gfx942").spills());

  const Resources flat = resources(R"(
extern "C" __attribute__((global)) void kernel(int** p, int n) {
  __attribute__((shared)) static int tile[64];
  int* where = n > 3 ? (int*)tile : p[0];
  where[n] = n;
  p[1][0] = where[n / 2];
})",
                                   "gfx1100");
  EXPECT_THAT(flat.performance_warnings,
              testing::ElementsAre(AllOf(StartsWith("has "), HasSubstr(" flat accesses"))));

  // More uniform numbers than there are scalar registers.
  const Resources scalars = resources(R"(
extern "C" __attribute__((global)) void kernel(float* p, const float* __restrict q, int n) {
  const int lane = __builtin_amdgcn_workitem_id_x();
  float all[150];
#pragma unroll
  for (int i = 0; i < 150; ++i) all[i] = q[3 * i + n];
  for (int j = 0; j < n; ++j) {
    float sum = p[lane * n + j];
#pragma unroll
    for (int i = 0; i < 150; ++i) sum = sum * all[i] + sum;
    p[lane * n + j] = sum;
    __builtin_amdgcn_s_barrier();
  }
})",
                                      "gfx90a");
  EXPECT_GT(scalars.scalar_spills, 0);
  EXPECT_GT(scalars.scalar_moves, 0);
  EXPECT_THAT(scalars.performance_warnings, IsEmpty()) << "it is reported only";
}

// clang 19 keeps these sums in accumulators, although they are rescaled by instructions that cannot reach
// them.
TEST_P(HipClang, ReportsMovesOfAccumulators) {
  const Resources used = resources(R"(
using Half4 = _Float16 __attribute__((vector_size(8)));
using Float16 = float __attribute__((vector_size(64)));
extern "C" __attribute__((global, amdgpu_flat_work_group_size(256, 256))) void kernel(
    const Half4* a, Float16* c, const float* factors, int steps) {
  const int lane = __builtin_amdgcn_workitem_id_x();
  Float16 sums[4] = {};
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      sums[n] = sums[n] * factors[i * 64 + lane];
      sums[n] = __builtin_amdgcn_mfma_f32_32x32x8f16(a[i * 64 + lane], a[n * 64 + lane], sums[n], 0, 0, 0);
    }
  }
  for (int n = 0; n < 4; ++n) c[n * 64 + lane] = sums[n];
})",
                                   "gfx942");
  EXPECT_EQ(used.matrix, 4);
  if (clang_version(clang_->identity()) == 19) {
    EXPECT_GE(used.accumulators, 64);
    EXPECT_GE(used.accumulator_moves, 64);
    EXPECT_GE(used.registers, used.accumulators);
  } else {
    EXPECT_EQ(used.accumulator_moves, 0);
  }
}

/// The instructions of a function, by a disassembler.
std::vector<std::string> disassembled(const std::string& objdump, const std::vector<std::byte>& binary,
                                      const Elf64_Sym& function) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/kernel.co";
  std::ofstream(file).write(reinterpret_cast<const char*>(binary.data()),
                            static_cast<std::streamsize>(binary.size()));
  const Result<Finished> run =
      run_process({objdump, "-d", fmt::format("--start-address={}", function.st_value),
                   fmt::format("--stop-address={}", function.st_value + function.st_size), file},
                  "/");
  std::vector<std::string> found;
  std::istringstream lines(run ? run->output : "");
  for (std::string line; std::getline(lines, line);) {
    std::string word;
    if (line.starts_with("\t") && std::istringstream(line) >> word) found.push_back(word);
  }
  return found;
}

// Instructions with constants, lanes in another order, pairs of them, atomics, fp16 and fp64, and the matrix
// instructions of bf16, whose numbers lie apart.
const std::string mixture = R"(
using Short4 = short __attribute__((ext_vector_type(4)));
using Bf16x8 = __bf16 __attribute__((ext_vector_type(8)));
using Float16 = float __attribute__((ext_vector_type(16)));
extern "C" __attribute__((global)) void mixture(float* p, double* d, long* l, _Float16* h, int** pp, int n) {
  const int lane = __builtin_amdgcn_workitem_id_x();
  float a = p[lane], b = p[lane + 64];
  int x = pp[0][lane];
  for (int i = 0; i < n; ++i) {
    a = __builtin_fmaf(b, 1.2345f, a);
    b = __builtin_fmaf(a, b, 9.75f) * 3.7f + __builtin_amdgcn_exp2f(a * 0.3f);
    x += __builtin_amdgcn_update_dpp(0, x, 0x111, 0xf, 0xf, true) ^ 0x12345;
    x = __builtin_amdgcn_perm(x, lane, 0x05040100) + __builtin_amdgcn_ds_bpermute(lane ^ 32, x);
    __atomic_fetch_add(pp[1] + lane, x, __ATOMIC_RELAXED);
    l[lane] = l[lane] * 0x123456789abcdefL + i;
    d[lane] = d[lane] * 1.23456789 + n / (d[lane] + 0.3);
  }
#if defined(__gfx950__)
  const Bf16x8* wide = (const Bf16x8*)pp[2];
  Float16* sums = (Float16*)pp[3];
  sums[lane] = __builtin_amdgcn_mfma_f32_32x32x16_bf16(wide[lane], wide[lane + 64], sums[lane], 0, 0, 0);
#elif defined(__gfx90a__) || defined(__gfx942__)
  const Short4* narrow = (const Short4*)pp[2];
  Float16* sums = (Float16*)pp[3];
  sums[lane] = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(narrow[lane], narrow[lane + 64], sums[lane], 0, 0, 0);
#endif
  h[lane] = __builtin_fmaf16(h[lane], (_Float16)1.37f, h[lane + 1]) + (_Float16)0.77f;
  h[lane + 64] = __builtin_fmaf16(h[lane], h[lane + 2], (_Float16)3.3f);
  p[lane] = a / b * 3.14159f + __builtin_sqrtf(a);
  p[lane + 64] = b * 2.5f + a;
  p[lane + 128] = __builtin_amdgcn_readlane(x, 3) * 12345678;
})";

TEST_P(HipClang, CountsTheInstructionsThatADisassemblerShows) {
  // An older one than the compiler does not know all instructions; the newest one knows most.
  const std::string of_compiler = GetParam() + std::strlen("clang-");
  std::string objdump;
  for (const std::string& version : {of_compiler, std::string("22")})
    if (std::string program = find_program("llvm-objdump-" + version, path()); !program.empty())
      objdump = std::move(program);
  if (objdump.empty()) GTEST_SKIP() << "there is no llvm-objdump-22, nor one of the compiler's version";
  for (const Target* target : hip_targets()) {
    if (!knows(*target)) continue;
    for (const auto& [name, source] : {std::pair("product", product), std::pair("mixture", mixture)}) {
      SCOPED_TRACE(fmt::format("{} {}", target->name, name));
      const Result<Compiled> made = compiled(name, source, *target);
      ASSERT_TRUE(made) << made.error().message;
      const auto function = find_function(made->binary, SHT_DYNSYM, name);
      ASSERT_TRUE(function);
      const std::vector<std::string> shown = disassembled(objdump, made->binary, *function);
      ASSERT_GT(shown.size(), 20u);
      const Elf64_Shdr section = elf_sections(made->binary)[function->st_shndx];
      const auto code =
          elf_content(made->binary, section).subspan(function->st_value - section.sh_addr, function->st_size);
      const Result<AmdInstructions> counted = count_amd_instructions(code, target->name);
      ASSERT_TRUE(counted) << counted.error().message;
      const auto count = [&](std::string_view part) {
        return std::ranges::count_if(
            shown, [&](const std::string& one) { return one.find(part) != std::string::npos; });
      };
      EXPECT_EQ(counted->all, std::ssize(shown));
      EXPECT_EQ(counted->matrix, count("mfma") + count("wmma"));
      EXPECT_EQ(counted->flat, count("flat_"));
      EXPECT_FALSE(count_amd_instructions(code.first(code.size() - 2), target->name));
    }
  }
}

TEST_P(HipClang, AFailureHasTheCommandTheLogAndTheKeptSource) {
  const Result<Compiled> result = compiled("wrong", "nonsense wrong;\n", **find_target("gfx942"));
  ASSERT_FALSE(result);
  const std::string& message = result.error().message;
  EXPECT_THAT(message,
              AllOf(HasSubstr("exit code 1"), HasSubstr("--offload-arch=gfx942"),
                    HasSubstr("unknown type name 'nonsense'"), HasSubstr("the source is kept in '")));
  const std::string words = "the source is kept in '";
  const std::size_t start = message.find(words) + words.size();
  fs::remove_all(fs::path(message.substr(start, message.find('\'', start) - start)).parent_path());
}

/// The files of kernels/, with a portable kernel whose code is in the folder of AMD's machines.
Result<std::string> with_a_product(std::string_view path) {
  if (path == "kernels/portable/made_up.cu")
    return "#include \"kernels/arguments.h\"\n#include \"kernels/machine/made_up.h\"\n";
  if (path == "kernels/hip/made_up.h") {
    std::string code = product;
    constexpr std::string_view name = "void product(";
    return code.replace(code.find(name), name.size(), "void REGARD_SYMBOL(");
  }
  return data_file(path);
}

TEST_P(HipClang, CompilesWhatIsRenderedAlsoByHand) {
  const Kernel made_up{.name = "portable_made_up", .depends_on = types_only};
  KernelKey key;
  key.target = "gfx942";
  key.algorithm.kernel = made_up.name;
  key.signature = parse_signature("fwd bf16 d=64").value();
  const Result<Rendered> kernel = render(key, made_up, with_a_product);
  ASSERT_TRUE(kernel) << kernel.error().message;
  const Result<Compiled> made = clang_->compile({kernel->symbol, kernel->source, kernel->options});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(find_function(made->binary, SHT_DYNSYM, kernel->symbol));

  // The command is the first comment, with the compiler's usual name.
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/" + kernel->symbol + ".hip") << kernel->source;
  constexpr std::string_view before = "// clang ";
  ASSERT_THAT(kernel->source, StartsWith(before));
  const std::string command = kernel->source.substr(before.size(), kernel->source.find('\n') - before.size());
  EXPECT_EQ(std::system(fmt::format("cd '{}' && {} {}", folder.path(), GetParam(), command).c_str()), 0);
  EXPECT_TRUE(fs::exists(folder.path() + "/" + kernel->symbol + ".co"));
}

TEST_P(HipClang, CompilesOurKernelsWithoutSpills) {
  for (const char* key :
       {"gfx942 portable_forward block_q=128 block_k=32 warps=4 stages=1 | fwd bf16 d=128",
        "gfx1100 portable_backward block_q=64 block_k=64 warps=8 warps_across=2 | bwd fp16 d=64 dropout",
        "gfx942 portable_combine block_dv=32 warps=4 | fwd bf16",
        "gfx90a portable_combine block_dv=32 warps=4 | fwd fp32",
        "gfx1100 portable_combine block_dv=32 warps=4 | fwd bf16"}) {
    SCOPED_TRACE(key);
    const Result<Rendered> kernel =
        parse_kernel_key(key).and_then([](const KernelKey& k) { return render(k); });
    ASSERT_TRUE(kernel) << kernel.error().message;
    const Result<Compiled> made = clang_->compile({kernel->symbol, kernel->source, kernel->options});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_FALSE(made->resources->spills());
    EXPECT_EQ(made->resources->stack_bytes, 0);
  }
}

// The manifest is what `regard prebuild --strict` judges.
TEST_P(HipClang, AKernelForSixteenBitsHasMatrixInstructions) {
  const auto resources_of = [&](const std::string& source, const char* text) {
    const Target& target = **find_target("gfx942");
    const Result<KernelKey> key = parse_kernel_key(text);
    if (!key) throw std::runtime_error(key.error().message);
    const CompileRequest asked = request("product", source, target);
    const Result<CacheEntry> entry =
        compile_entry(*key, target, {asked.source, asked.options, asked.name}, *clang_);
    if (!entry) throw std::runtime_error(entry.error().message);
    return Manifest(entry->manifest).resources.value();
  };
  std::string without = product;
  without.replace(without.rfind("sums = PRODUCT("), std::string_view("sums = PRODUCT(").size(),
                  "sums += Sums{}; (");
  const char* const forward =
      "gfx942 portable_forward block_q=128 block_k=32 warps=1 stages=1 | fwd bf16 d=64";
  const char* const in_fp32 =
      "gfx942 portable_forward block_q=128 block_k=32 warps=1 stages=1 | fwd fp32 d=64";
  const char* const combine = "gfx942 portable_combine block_dv=32 warps=4 | fwd bf16";
  EXPECT_THAT(resources_of(without, forward).performance_warnings,
              testing::ElementsAre("has no matrix instruction"));
  EXPECT_THAT(resources_of(without, in_fp32).performance_warnings, IsEmpty());
  EXPECT_THAT(resources_of(without, combine).performance_warnings, IsEmpty());
  const Resources used = resources_of(product, forward);
  EXPECT_THAT(used.performance_warnings, IsEmpty());
  EXPECT_EQ(used.matrix, 1);
  EXPECT_EQ(used.waves, waves_per_simd(used.registers, **find_target("gfx942")));
}

INSTANTIATE_TEST_SUITE_P(Versions, HipClang, testing::Values("clang-22", "clang-19"),
                         [](const auto& version) {
                           std::string name = version.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(HipClangVersion, IsReadFromWhatIdentifiesACompiler) {
  EXPECT_EQ(clang_version("Debian clang version 19.1.7 (3~deb12u1); Target: x86_64-pc-linux-gnu"), 19);
  EXPECT_EQ(clang_version("AMD clang version 20.0.0git (https://github.com/x roc-7.0.0); Target: x"), 20);
  EXPECT_EQ(clang_version("clang version 18.0; AMD clang version 19.0; clang version 17"), 19);
  EXPECT_EQ(clang_version("gcc version 12.2.0 (Debian 12.2.0-14); Target: x86_64-linux-gnu"), 0);
}

class HipClangPlaces : public testing::Test {
 protected:
  /// Puts a program there that answers as clang of that version does.
  void put(const std::string& program, int version, const std::string& backends = "amdgcn - AMD GPUs",
           const std::string& linker = "/bin/sh") const {
    const fs::path file = folder_ / program;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << "#!/bin/sh\ncase $1 in\n"
                        << "-v) echo 'clang version " << version << ".1.0'; echo 'Target: x86_64';;\n"
                        << "--print-targets) echo '" << backends << "';;\n"
                        << "-print-prog-name=lld) echo " << linker << ";;\n"
                        << "*) sleep 60;;\nesac\n";
    fs::permissions(file, fs::perms::owner_all);
  }
  std::string found(const std::string& setting = "", double limit_seconds = 300) {
    Result<std::unique_ptr<Toolchain>> clang = find_hip_clang({.setting = setting,
                                                               .rocm_path = folder_ / "mine",
                                                               .path = folder_ / "path",
                                                               .rocm = folder_ / "rocm"},
                                                              limit_seconds);
    if (!clang) return clang.error().message;
    clang_ = std::move(*clang);
    return clang_->name();
  }
  std::string name_of(const std::string& program) const {
    return fmt::format("clang for HIP ({})", (folder_ / program).string());
  }

  const TemporaryFolder own_;
  const fs::path folder_ = own_.path();
  std::unique_ptr<Toolchain> clang_;
};

TEST_F(HipClangPlaces, RocmsComesBeforeTheNewestOnThePath) {
  EXPECT_THAT(found(), AllOf(StartsWith("no clang for AMD GPUs: searched ROCM_PATH '"),
                             HasSubstr("/rocm', and clang-22, "),
                             HasSubstr("install ROCm, or clang 19 or later with AMD's backend and lld")));
  for (const char* program :
       {"path/clang", "path/clang-19", "path/clang-22", "rocm/llvm/bin/clang", "mine/llvm/bin/clang"}) {
    put(program, 22);
    EXPECT_EQ(found(), name_of(program));
  }
  EXPECT_EQ(found("clang-19"), name_of("path/clang-19"));
  EXPECT_EQ(found(folder_ / "path/clang"), name_of("path/clang"));
}

TEST_F(HipClangPlaces, OneThatCannotCompileIsPassedOverAndNamed) {
  put("rocm/llvm/bin/clang", 18);
  put("path/clang-22", 22, "x86-64 - 64-bit X86");
  put("path/clang-20", 20, "amdgcn - AMD GPUs", "lld");
  EXPECT_THAT(found(), AllOf(HasSubstr("/rocm/llvm/bin/clang' is clang 18, which is too old; "),
                             HasSubstr("/clang-22' has no backend for AMD GPUs; "),
                             HasSubstr("/clang-20' has no lld, its linker for AMD GPUs; install ")));
  put("path/clang", 19);
  EXPECT_EQ(found(), name_of("path/clang"));
}

TEST_F(HipClangPlaces, TheSettingIsTheOnlyOneThatIsTried) {
  put("path/clang", 19);
  put("path/clang-20", 14);
  EXPECT_THAT(found("clang-20"),
              AllOf(StartsWith("REGARD_HIP_CLANG='clang-20' cannot compile for AMD GPUs; '"),
                    HasSubstr("is clang 14, which is too old; set it to the path of clang 19 or later")));
  EXPECT_THAT(found("nothing"), HasSubstr("REGARD_HIP_CLANG='nothing' cannot compile for AMD GPUs; it is no "
                                          "program; set it to"));
}

TEST_F(HipClangPlaces, AHangingCompileIsKilled) {
  put("path/clang", 19);
  ASSERT_EQ(found("", 0.2), name_of("path/clang"));
  const Result<Compiled> result = clang_->compile(request("slow", "", **find_target("gfx942")));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("killed after 0.2 s"));
}

TEST(AmdResources, OtherBytesAreRefused) {
  EXPECT_THAT(amd_resources({}, "gfx942").error().message, HasSubstr("has no metadata of AMD's"));
  const std::vector<std::byte> zeros(1000);
  EXPECT_FALSE(amd_resources(zeros, "gfx942"));
  EXPECT_THAT(count_amd_instructions({}, "gfx803").error().message, HasSubstr("'gfx803'"));
}

}  // namespace
}  // namespace regard
