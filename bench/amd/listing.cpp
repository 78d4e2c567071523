// Prints the instructions of a code object's one kernel as lines "word encoding operation"; the line of a
// branch ends with the word that it goes to. bench/amd/code.py reads them.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/files.h"
#include "cache/entry.h"
#include "compile/amd_instruction.h"
#include "compile/amd_resources.h"

namespace {

using namespace regard::amd;  // NOLINT: all of this file is about its instructions
using Operation = std::pair<std::string_view, Word>;

Operation memory_operation(const Instruction& i) {
  const Word group = bits(i.at, 31, 26);
  if (group == 0b110110) return {"DS", i.is_gfx9() ? bits(i.at, 24, 17) : bits(i.at, 25, 18)};
  if (i.family == Family::gfx12) {
    if (bits(i.at, 31, 24) == 0b11101110) return {"GLOBAL", bits(i.at, 21, 14)};
    return {"other", 0};
  }
  const Word global = 0b10;
  if (group == 0b110111 && (i.is_gfx9() ? bits(i.at, 15, 14) : bits(i.at, 17, 16)) == global)
    return {"GLOBAL", bits(i.at, 24, 18)};
  return {group == 0b111000 ? "MUBUF" : "other", bits(i.at, 24, 18)};
}

Operation operation(const Instruction& i) {
  if (i.is_vector()) {
    if (bits(i.at, 31, 25) == 0b0111111) return {"VOP1", bits(i.at, 16, 9)};
    if (bits(i.at, 31, 25) == 0b0111110) return {"VOPC", bits(i.at, 24, 17)};
    return {"VOP2", bits(i.at, 30, 25)};
  }
  if (i.is_sopp()) return {"SOPP", bits(i.at, 22, 16)};
  if (i.is_scalar()) return {"scalar", 0};
  if (i.is_vop3p()) return {i.is_matrix() ? "matrix" : "VOP3P", bits(i.at, 22, 16)};
  if (i.is_vop3()) {
    // VOP3 has the operations of VOP1 too.
    const Word op = bits(i.at, 25, 16), first = i.is_gfx9() ? 0x140 : 0x180;
    return op >= first && op < first + 0x80 ? Operation{"VOP1", op - first} : Operation{"VOP3", op};
  }
  if (!i.is_gfx9() && bits(i.at, 31, 26) == 0b110010) return {"VOPD", bits(i.at, 25, 22)};
  return memory_operation(i);
}

/// The content of the file, or of a cache entry, the binary that it holds.
regard::Result<std::vector<std::byte>> code_object(const std::filesystem::path& path) {
  if (path.extension() != ".regard")
    return regard::read_file(path, std::uint64_t{1} << 30, regard::Links::followed)
        .map([](const std::string& text) {
          const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
          return std::vector(bytes.begin(), bytes.end());
        });
  const std::optional<regard::Digest> key = regard::parse_digest(path.stem().string());
  if (!key) return regard::invalid("the file is not named by a key, as entries of a cache are");
  return regard::RegularFile::open(path, regard::Links::followed)
      .and_then([&](const regard::RegularFile& file) { return regard::cache::read_entry(*key, file); })
      .map([](const regard::CacheEntry& entry) { return entry.payload; });
}

}  // namespace

int main(int count, char** arguments) {
  const auto wrong = [](const std::string& why) {
    fmt::print(stderr, "{}\n", why);
    return 1;
  };
  if (count != 2) return wrong("usage: bench_amd_listing FILE.co, or KEY.regard of a cache");
  const regard::Result<std::vector<std::byte>> object = code_object(arguments[1]);
  if (!object) return wrong(object.error().message);
  const regard::Result<regard::AmdCode> code = regard::amd_code(*object);
  if (!code) return wrong(code.error().message);
  const std::optional<Family> family = family_of(code->chip);
  if (!family) return wrong("unknown chip " + code->chip);
  const std::size_t size = code->bytes.size() / sizeof(Word);
  std::vector<Word> words(size + 1);  // a zero at the end
  std::memcpy(words.data(), code->bytes.data(), size * sizeof(Word));
  for (std::size_t at = 0; at < size;) {
    const Instruction instruction{*family, words[at], words[at + 1]};
    const auto [encoding, op] = operation(instruction);
    fmt::print("{} {} {}", at, encoding, op);
    at += instruction.words();
    if (const std::int64_t distance = instruction.branch(); distance != 0)
      fmt::print(" {}", static_cast<std::int64_t>(at) + distance);
    fmt::print("\n");
  }
  return 0;
}
