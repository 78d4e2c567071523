#include "emulator/hip/metadata.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace emulator::hip {

std::string metadata(const Chip& chip, const std::string& compiler) {
  const nlohmann::json described{{"amdhsa.version", {1, 2}},
                                 {"amdhsa.target", fmt::format("amdgcn-amd-amdhsa--{}", chip.name)},
                                 {"amdhsa.kernels",
                                  {{{".name", "emulated_code"},
                                    {".vgpr_count", 1},
                                    {".sgpr_count", 1},
                                    {".wavefront_size", chip.wave}}}}};
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_msgpack(described);
  const char* const code =
      (chip.family & cdna) != 0 ? "0xd3cd0000, 0, 0xbf810000" : "0xcc404000, 0, 0xbfb00000";
  return fmt::format(R"(
asm(".pushsection .note.amdgpu, \"a\", @note\n .balign 4\n .long 7, {}, 32\n .asciz \"AMDGPU\"\n .balign 4\n"
    ".byte {}\n .balign 4\n .popsection\n"
    ".pushsection .comment, \"MS\", @progbits, 1\n .asciz \"{}\"\n .popsection\n"
    ".pushsection .rodata.emulated\n .globl emulated_code\n .type emulated_code, @function\n"
    "emulated_code: .long {}\n .size emulated_code, . - emulated_code\n .popsection\n");
)",
                     bytes.size(), fmt::join(bytes, ", "), compiler, code);
}

}  // namespace emulator::hip
