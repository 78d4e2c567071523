#include "base/elf.h"

namespace regard {
namespace {

using Bytes = std::span<const std::byte>;

bool has_range(Bytes bytes, std::uint64_t offset, std::uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset;
}

bool has_text_at(Bytes bytes, std::uint64_t offset, std::string_view text) {
  if (!has_range(bytes, offset, text.size() + 1)) return false;  // a zero follows it
  const auto* const begin = reinterpret_cast<const char*>(bytes.data()) + offset;
  return std::string_view(begin, text.size()) == text && begin[text.size()] == '\0';
}

}  // namespace

const char* code_object_defect(Bytes bytes, Elf64_Half machine) {
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  if (!header) return "it is too short";
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return "it is not a 64-bit ELF file";
  if (header->e_machine != machine)
    return machine == EM_CUDA ? "it holds no machine code of NVIDIA GPUs"
                              : "it holds no machine code of AMD GPUs";
  if ((header->e_phnum > 0 && header->e_phentsize != sizeof(Elf64_Phdr)) ||
      (header->e_shnum > 0 && header->e_shentsize != sizeof(Elf64_Shdr)))
    return "its headers are damaged";
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = value_at<Elf64_Phdr>(bytes, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || !has_range(bytes, segment->p_offset, segment->p_filesz)) return "it is truncated";
  }
  const std::vector<Elf64_Shdr> sections = elf_sections(bytes);
  if (sections.size() != header->e_shnum) return "it is truncated";
  for (const Elf64_Shdr& section : sections)
    if (section.sh_type != SHT_NOBITS && !has_range(bytes, section.sh_offset, section.sh_size))
      return "it is truncated";
  return nullptr;
}

std::vector<Elf64_Shdr> elf_sections(Bytes bytes) {
  std::vector<Elf64_Shdr> sections;
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  for (std::uint64_t i = 0; header && i < header->e_shnum; ++i) {
    const auto section = value_at<Elf64_Shdr>(bytes, header->e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) break;
    sections.push_back(*section);
  }
  return sections;
}

Bytes elf_content(Bytes bytes, const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes.size()) return {};
  const std::uint64_t left = bytes.size() - section.sh_offset;
  return bytes.subspan(section.sh_offset, section.sh_size < left ? section.sh_size : left);
}

Bytes elf_content(Bytes bytes, std::string_view name) {
  const std::vector<Elf64_Shdr> sections = elf_sections(bytes);
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  if (!header || header->e_shstrndx >= sections.size()) return {};
  const Bytes names = elf_content(bytes, sections[header->e_shstrndx]);
  for (const Elf64_Shdr& section : sections)
    if (has_text_at(names, section.sh_name, name)) return elf_content(bytes, section);
  return {};
}

std::optional<Elf64_Sym> find_function(Bytes bytes, Elf64_Word kind, std::string_view name) {
  const std::vector<Elf64_Shdr> sections = elf_sections(bytes);
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != kind || table.sh_link >= sections.size()) continue;
    const Bytes symbols = elf_content(bytes, table), names = elf_content(bytes, sections[table.sh_link]);
    for (std::uint64_t at = 0; const auto symbol = value_at<Elf64_Sym>(symbols, at); at += sizeof(Elf64_Sym))
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
          has_text_at(names, symbol->st_name, name))
        return symbol;
  }
  return std::nullopt;
}

}  // namespace regard
