// Files that kernels can be loaded from, and files that only look like it; damaged ones are read in bounds.
#include "aot/code_object.h"

#include <elf.h>
#include <gmock/gmock.h>

#include <cstring>
#include <string>
#include <vector>

namespace regard::aot {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Code {
  Elf64_Half machine = EM_CUDA;
  Elf64_Word table = SHT_SYMTAB;
  unsigned char type = STT_FUNC;
  Elf64_Half section = 1;
  Elf64_Word flags = 0;
  Elf64_Half kind = ET_DYN;
};

/// An ELF file with one symbol, "regard_1".
std::vector<std::byte> file_of(const Code& code) {
  constexpr char names[] = "\0regard_1";
  struct {
    Elf64_Ehdr header{};
    Elf64_Shdr sections[3]{};
    Elf64_Sym symbol{};
    char text[sizeof names]{};
  } file;
  std::memcpy(file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_type = code.kind;
  file.header.e_phentsize = sizeof(Elf64_Phdr);
  file.header.e_machine = code.machine;
  file.header.e_flags = code.flags;
  file.header.e_shentsize = sizeof(Elf64_Shdr);
  file.header.e_shoff = sizeof file.header;
  file.header.e_shnum = 3;
  file.sections[1].sh_type = code.table;
  file.sections[1].sh_offset = sizeof file.header + sizeof file.sections;
  file.sections[1].sh_size = sizeof file.symbol;
  file.sections[1].sh_link = 2;
  file.sections[2].sh_type = SHT_STRTAB;
  file.sections[2].sh_offset = file.sections[1].sh_offset + sizeof file.symbol;
  file.sections[2].sh_size = sizeof names;
  file.symbol.st_name = 1;
  file.symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, code.type);
  file.symbol.st_shndx = code.section;
  std::memcpy(file.text, names, sizeof names);
  const auto bytes = std::as_bytes(std::span(&file, 1)).first(offsetof(decltype(file), text) + sizeof names);
  return {bytes.begin(), bytes.end()};
}

std::string refusal_of(std::span<const std::byte> bytes, const char* target,
                       std::string_view symbol = "regard_1") {
  const Status status = check_code_object(bytes, **find_target(target), symbol);
  return status ? "none" : status.error().message;
}

TEST(CodeObject, HasTheFunctionInTheTableThatItsLoaderReads) {
  EXPECT_EQ(refusal_of(file_of({}), "sm_90a"), "none");
  EXPECT_EQ(refusal_of(file_of({.table = SHT_DYNSYM}), "sm_90a"), "none");
  EXPECT_EQ(refusal_of(file_of({.machine = EM_X86_64, .table = SHT_DYNSYM}), "cpu-avx2"), "none");
  EXPECT_EQ(refusal_of(file_of({.machine = EM_X86_64}), "cpu-avx2"),
            "it has no function regard_1, by which this kernel is called");
  EXPECT_THAT(refusal_of(file_of({.type = STT_OBJECT}), "sm_90a"), HasSubstr("no function"));
  EXPECT_THAT(refusal_of(file_of({.section = SHN_UNDEF}), "sm_90a"), HasSubstr("no function"));
  for (const char* other : {"regard_", "regard_12", "egard_1x", ""})
    EXPECT_THAT(refusal_of(file_of({}), "sm_90a", other), HasSubstr("no function")) << other;
}

TEST(CodeObject, IsOfTheTarget) {
  EXPECT_EQ(refusal_of({}, "sm_90a"), "it is no binary for sm_90a: it is too short");
  EXPECT_THAT(refusal_of(std::vector<std::byte>(64), "sm_90a"), HasSubstr("it is not a 64-bit ELF file"));
  EXPECT_THAT(refusal_of(file_of({.machine = EM_X86_64}), "sm_90a"),
              HasSubstr("no machine code of NVIDIA GPUs"));
  EXPECT_THAT(refusal_of(file_of({}), "gfx942"), HasSubstr("no machine code of AMD GPUs"));
  EXPECT_THAT(refusal_of(file_of({}), "cpu-avx2"), HasSubstr("it was compiled for another machine"));
}

TEST(CodeObject, OfAmdIsForTheChipOrItsFamily) {
  const auto of_chip = [](Elf64_Word flags) { return file_of({.machine = EM_AMDGPU, .flags = flags}); };
  constexpr Elf64_Word gfx942 = 0x54c, gfx1100 = 0x41, gfx9_4_generic = 0x0100055f, unknown = 0x46;
  EXPECT_EQ(refusal_of(of_chip(gfx942), "gfx942"), "none");
  EXPECT_EQ(refusal_of(of_chip(gfx9_4_generic), "gfx942"), "none");
  EXPECT_EQ(refusal_of(of_chip(gfx9_4_generic), "gfx9-4-generic"), "none");
  EXPECT_EQ(refusal_of(of_chip(gfx942), "gfx9-4-generic"),
            "it is no binary for gfx9-4-generic: its code is for gfx942");
  EXPECT_EQ(refusal_of(of_chip(gfx1100), "gfx942"), "it is no binary for gfx942: its code is for gfx1100");
  EXPECT_THAT(refusal_of(of_chip(unknown), "gfx942"), HasSubstr("for a chip without a target"));
  EXPECT_EQ(refusal_of(file_of({.machine = EM_AMDGPU, .flags = gfx942, .kind = ET_REL}), "gfx942"),
            "it is no binary for gfx942: it was compiled but not linked; leave out -c");
  const std::string bundle = "__CLANG_OFFLOAD_BUNDLE__";
  EXPECT_THAT(refusal_of(std::as_bytes(std::span(bundle)), "gfx942"), HasSubstr("--no-gpu-bundle-output"));
}

// Drivers get no size of a code object, and would read past the end of one that is cut.
TEST(CodeObject, ThatIsCutAnywhereIsRefused) {
  for (const auto& [code, target] :
       {std::pair{Code{}, "sm_90a"}, std::pair{Code{.machine = EM_AMDGPU, .flags = 0x54c}, "gfx942"}}) {
    const std::vector<std::byte> whole = file_of(code);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_THAT(refusal_of(std::span(whole).first(size), target),
                  AnyOf(HasSubstr("it is too short"), HasSubstr("it is truncated")))
          << size;
    for (std::size_t place = 0; place < whole.size(); ++place) {
      for (const int value : {0x00, 0x7f, 0xff}) {
        std::vector<std::byte> other = whole;
        other[place] = static_cast<std::byte>(value);
        refusal_of(other, target);
      }
    }
  }
}

}  // namespace
}  // namespace regard::aot
