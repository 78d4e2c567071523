#include "aot/code_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "base/shared_object.h"

namespace regard::aot {
namespace {

using Bytes = std::span<const std::byte>;

/// The value at that offset; nothing where the bytes end before it does.
template <class T>
std::optional<T> value_at(Bytes bytes, std::uint64_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool has_text_at(Bytes bytes, std::uint64_t offset, std::string_view text) {
  if (offset > bytes.size() || text.size() >= bytes.size() - offset) return false;  // a zero follows it
  const auto* const begin = reinterpret_cast<const char*>(bytes.data()) + offset;
  return std::string_view(begin, text.size()) == text && begin[text.size()] == '\0';
}

/// The bytes of a section, as far as the file has them.
Bytes content(Bytes bytes, const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes.size()) return {};
  const std::uint64_t left = bytes.size() - section.sh_offset;
  return bytes.subspan(section.sh_offset, section.sh_size < left ? section.sh_size : left);
}

/// Whether symbol tables of this kind have the function.
bool has_function(Bytes bytes, const Elf64_Ehdr& header, Elf64_Word kind, std::string_view name) {
  const auto section = [&](std::uint64_t number) {
    return value_at<Elf64_Shdr>(bytes, header.e_shoff + number * sizeof(Elf64_Shdr));
  };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto table = section(i);
    if (!table || table->sh_type != kind || table->sh_link >= header.e_shnum) continue;
    const auto names_of = section(table->sh_link);
    if (!names_of) continue;
    const Bytes symbols = content(bytes, *table), names = content(bytes, *names_of);
    for (std::uint64_t at = 0; const auto symbol = value_at<Elf64_Sym>(symbols, at); at += sizeof(Elf64_Sym))
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
          has_text_at(names, symbol->st_name, name))
        return true;
  }
  return false;
}

/// Null: no defect.
const char* defect_of(Bytes bytes, const Target& target) {
  if (target.on_cpu()) return shared_object_defect(bytes);
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  if (!header) return "it is too short";
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return "it is not a 64-bit ELF file";
  const bool is_cuda = target.kind == TargetKind::cuda;
  if (header->e_machine != (is_cuda ? EM_CUDA : EM_AMDGPU))
    return is_cuda ? "it holds no machine code of NVIDIA GPUs" : "it holds no machine code of AMD GPUs";
  return nullptr;
}

}  // namespace

Status check_code_object(Bytes bytes, const Target& target, std::string_view symbol) {
  if (const char* const defect = defect_of(bytes, target))
    return invalid(fmt::format("it is no binary for {}: {}", target.name, defect));
  const Elf64_Ehdr header = *value_at<Elf64_Ehdr>(bytes, 0);
  // The loader of shared objects sees only the dynamic symbols.
  if (has_function(bytes, header, SHT_DYNSYM, symbol) ||
      (target.on_gpu() && has_function(bytes, header, SHT_SYMTAB, symbol)))
    return {};
  return invalid(fmt::format("it has no function {}, by which this kernel is called", symbol));
}

}  // namespace regard::aot
