#include "base/shared_object.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/files.h"

namespace regard {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half this_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half this_machine = EM_AARCH64;
#else
#error "name this machine's ELF number here"
#endif

}  // namespace

const char* shared_object_defect(std::span<const std::byte> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return "it is too short";
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it is not an ELF file";
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != this_machine) {
    return "it was compiled for another machine";
  }
  if (header.e_type != ET_DYN) return "it is not a shared object";
  const std::uint64_t size = bytes.size();
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > size ||
      std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr) > size - header.e_phoff) {
    return "its program headers are damaged";
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) return "it is truncated";
  }
  return nullptr;
}

Status check_shared_object(const std::string& path) {
  const Result<RegularFile> file = RegularFile::open(path, Links::followed);
  if (!file) return tl::unexpected(file.error());
  const auto size = static_cast<std::size_t>(file->bytes());
  void* const mapped =
      size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->descriptor(), 0);
  if (mapped == MAP_FAILED) return {};  // the loader reports this itself
  const char* const why = shared_object_defect({static_cast<const std::byte*>(mapped), size});
  if (mapped != nullptr) munmap(mapped, size);
  return why == nullptr ? Status() : invalid(why);
}

}  // namespace regard
