#include "compile/amd_resources.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/elf.h"
#include "base/text.h"
#include "compile/amd_instructions.h"

namespace regard {
namespace {

using Bytes = std::span<const std::byte>;
using Json = nlohmann::json;

tl::unexpected<Error> unknown(std::string_view what) {
  return fail(ErrorKind::internal, fmt::format("the compiler's code object {}", what));
}

/// The metadata that AMD's compilers write as MessagePack; null if there is none.
Json metadata_of(Bytes bytes) {
  constexpr std::uint32_t metadata = 32;  // NT_AMDGPU_METADATA
  constexpr std::string_view owner("AMDGPU\0", 7);
  const auto aligned = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  for (const Elf64_Shdr& section : elf_sections(bytes)) {
    if (section.sh_type != SHT_NOTE) continue;
    Bytes rest = elf_content(bytes, section);
    while (const auto note = value_at<Elf64_Nhdr>(rest, 0)) {
      const std::uint64_t name = sizeof *note, content = name + aligned(note->n_namesz),
                          end = content + aligned(note->n_descsz);
      if (end > rest.size()) break;
      const auto* const text = reinterpret_cast<const char*>(rest.data());
      if (note->n_type == metadata && std::string_view(text + name, note->n_namesz) == owner) {
        Json json = Json::from_msgpack(text + content, text + content + note->n_descsz, true, false);
        if (json.is_object()) return json;
      }
      rest = rest.subspan(end);
    }
  }
  return nullptr;
}

/// The machine code of a function.
Bytes code_of(Bytes bytes, std::string_view name) {
  const auto function = find_function(bytes, SHT_DYNSYM, name);
  const std::vector<Elf64_Shdr> sections = elf_sections(bytes);
  if (!function || function->st_shndx >= sections.size()) return {};
  const Elf64_Shdr& section = sections[function->st_shndx];
  const Bytes content = elf_content(bytes, section);
  const std::uint64_t begin = function->st_value - section.sh_addr;
  if (begin > content.size() || function->st_size > content.size() - begin) return {};
  return content.subspan(begin, function->st_size);
}

std::string text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

struct Described {
  Json kernel;  ///< what the metadata say of it
  AmdCode code;
};

Result<Described> described(Bytes bytes) {
  const Json metadata = metadata_of(bytes);
  if (!metadata.is_object()) return unknown("has no metadata of AMD's");
  const auto kernels = metadata.find("amdhsa.kernels");
  if (kernels == metadata.end() || !kernels->is_array() || kernels->size() != 1)
    return unknown("has not one kernel");
  const Json& kernel = kernels->front();
  if (!kernel.is_object()) return unknown("has not one kernel");
  // "amdgcn-amd-amdhsa--gfx942:sramecc+"
  const std::string target = text(metadata, "amdhsa.target"), name = text(kernel, ".name");
  const std::size_t before_chip = target.rfind("--");
  if (before_chip == std::string::npos) return unknown("is for no known chip");
  const Bytes code = code_of(bytes, name);
  if (code.empty()) return unknown(fmt::format("has no code of its kernel {}", in_quotes(name)));
  return Described{kernel, {target.substr(before_chip + 2), code}};
}

}  // namespace

Result<AmdCode> amd_code(Bytes bytes) {
  Result<Described> found = described(bytes);
  if (!found) return tl::unexpected(found.error());
  return std::move(found->code);
}

Result<Resources> amd_resources(Bytes bytes, std::string_view chip) {
  const Result<Described> found = described(bytes);
  if (!found) return tl::unexpected(found.error());
  const std::string_view made_for = std::string_view(found->code.chip).substr(0, found->code.chip.find(':'));
  if (made_for != chip) return unknown(fmt::format("is for {}, not for {}", made_for, chip));
  const auto number = [&](const char* name) {
    const auto value = found->kernel.find(name);
    return value != found->kernel.end() && value->is_number_integer() ? value->get<std::int64_t>() : 0;
  };
  const Result<AmdInstructions> code = count_amd_instructions(found->code.bytes, found->code.chip);
  if (!code) return tl::unexpected(code.error());

  constexpr std::int64_t register_bytes = 4;
  Resources resources{.registers = number(".vgpr_count"),
                      .stack_bytes = number(".private_segment_fixed_size"),
                      .spill_store_bytes = register_bytes * number(".vgpr_spill_count"),
                      .shared_bytes = number(".group_segment_fixed_size"),
                      .matrix = code->matrix,
                      .accumulators = number(".agpr_count"),
                      .accumulator_moves = code->accumulator_moves,
                      .scalar_registers = number(".sgpr_count"),
                      .scalar_spills = number(".sgpr_spill_count")};
  if (resources.scalar_spills > 0) resources.scalar_moves = code->scalar_moves;
  if (code->flat > 0)
    resources.performance_warnings.push_back(
        fmt::format("has {} flat accesses, which wait for LDS and memory", code->flat));
  return resources;
}

}  // namespace regard
