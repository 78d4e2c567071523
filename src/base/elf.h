// Reads 64-bit ELF files, which could be damaged: nothing beyond their end.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace regard {

/// The value at that offset; nothing where the bytes end before it does.
template <class T>
std::optional<T> value_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// Why a driver must not get these bytes as code for a GPU of this machine number (EM_CUDA, EM_AMDGPU); null
/// if nothing is wrong. Drivers get no size, and read as many bytes as the headers say.
const char* code_object_defect(std::span<const std::byte> bytes, Elf64_Half machine);

/// All that are in the file, in its order.
std::vector<Elf64_Shdr> elf_sections(std::span<const std::byte> bytes);

/// The bytes of a section, as far as the file has them.
std::span<const std::byte> elf_content(std::span<const std::byte> bytes, const Elf64_Shdr&);

/// The content of the section with that name; empty if there is none.
std::span<const std::byte> elf_content(std::span<const std::byte> bytes, std::string_view section);

/// A function with that name that is defined in the file, if symbol tables of this kind (SHT_DYNSYM,
/// SHT_SYMTAB) have it.
std::optional<Elf64_Sym> find_function(std::span<const std::byte> bytes, Elf64_Word kind,
                                       std::string_view name);

}  // namespace regard
