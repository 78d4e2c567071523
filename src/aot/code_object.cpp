#include "aot/code_object.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>

#include "base/elf.h"
#include "base/shared_object.h"

namespace regard::aot {
namespace {

/// Null: no defect.
const char* defect_of(std::span<const std::byte> bytes, const Target& target) {
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

Status check_code_object(std::span<const std::byte> bytes, const Target& target, std::string_view symbol) {
  if (const char* const defect = defect_of(bytes, target))
    return invalid(fmt::format("it is no binary for {}: {}", target.name, defect));
  // The loader of shared objects sees only the dynamic symbols.
  if (find_function(bytes, SHT_DYNSYM, symbol) ||
      (target.on_gpu() && find_function(bytes, SHT_SYMTAB, symbol)))
    return {};
  return invalid(fmt::format("it has no function {}, by which this kernel is called", symbol));
}

}  // namespace regard::aot
