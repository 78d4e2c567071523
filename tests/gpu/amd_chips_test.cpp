// Code for one of AMD's chips is not loaded into another.
#include <elf.h>
#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "base/amd_code.h"
#include "device/gpu.h"
#include "gpu/fake_driver/fake_driver.h"
#include "plan/target.h"

namespace regard::test {
namespace {

using testing::HasSubstr;

std::vector<std::byte> code_with(Elf64_Word flags) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_AMDGPU;
  header.e_flags = flags;
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST(AmdChips, RunCodeOfTheirNameAndOfTheirFamily) {
  struct Row {
    const char *target, *chip;
    bool runs;
  };
  for (const Row& row : {Row{"gfx942", "gfx942", true}, Row{"gfx942", "gfx950", false},
                         Row{"gfx9-4-generic", "gfx942", true}, Row{"gfx9-4-generic", "gfx950", true},
                         Row{"gfx9-4-generic", "gfx90a", false}, Row{"gfx1100", "gfx1101", false},
                         Row{"gfx11-generic", "gfx1100", true}, Row{"gfx11-generic", "gfx1151", true},
                         Row{"gfx11-generic", "gfx1201", false}, Row{"gfx12-generic", "gfx1200", true}})
    EXPECT_EQ(amd::runs_on_chip(row.target, row.chip), row.runs) << row.target << " on " << row.chip;
}

// The flags are those that clang 22 writes; in the upper bytes they say more than the chip.
TEST(AmdChips, CodeSaysItsTarget) {
  struct Row {
    Elf64_Word flags;
    const char* target;
  };
  for (const Row& row : {Row{0x53f, "gfx90a"}, Row{0x54c, "gfx942"}, Row{0x54f, "gfx950"},
                         Row{0x41, "gfx1100"}, Row{0x4e, "gfx1201"}, Row{0x0100055f, "gfx9-4-generic"},
                         Row{0x01000054, "gfx11-generic"}, Row{0x01000059, "gfx12-generic"}}) {
    const Result<std::string_view> target = amd::target_of(code_with(row.flags));
    ASSERT_TRUE(target) << row.target;
    EXPECT_EQ(*target, row.target);
  }
  EXPECT_EQ(amd::target_of(code_with(0x46)).error().message,
            "its code is for a chip without a target (number 0x46)");
}

TEST(AmdChips, CodeForAnotherOneIsNotLoaded) {
  const gpu::Backend& backend = *gpu::find_backend("hip");
  const gpu::Device& instinct = gpu::devices(backend)->front();
  const gpu::Use use(instinct);
  const int loads = fake_driver()->loads[0];
  for (const Elf64_Word other : {0x41, 0x54f}) {
    EXPECT_TRUE(gpu::check_binary(backend, code_with(other), "attend"));
    const Result<gpu::Function> refused = gpu::Kernel(backend, code_with(other), "attend").load(instinct);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message,
                HasSubstr("the binary of kernel 'attend' cannot be loaded: target gfx"));
    EXPECT_THAT(refused.error().message, HasSubstr("does not run on Fake Instinct, which is gfx942"));
  }
  EXPECT_EQ(fake_driver()->loads[0], loads);
  for (const Elf64_Word own : {0x54c, 0x0100055f})
    EXPECT_TRUE(gpu::Kernel(backend, code_with(own), "attend").load(instinct));
}

TEST(AmdChips, TheirOwnTargetIsPreferredToTheirFamilys) {
  for (const Target& own : *targets()) {
    if (own.kind != TargetKind::hip) continue;
    for (const Target& family : *targets()) {
      if (&family == &own || !amd::runs_on_chip(family.name, own.name)) continue;
      EXPECT_GT(own.preference, family.preference) << own.name << " and " << family.name;
    }
  }
}

}  // namespace
}  // namespace regard::test
