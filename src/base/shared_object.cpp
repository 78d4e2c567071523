#include "base/shared_object.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "base/descriptor.h"

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

const char* shared_object_defect(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return nullptr;
  const char* why = nullptr;
  struct stat status;
  const bool known = fstat(file.number(), &status) == 0;
  if (known && !S_ISREG(status.st_mode)) {
    why = "it is not a file";  // the loader would wait for a FIFO's writer
  } else if (known) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const mapped =
        size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
    if (mapped != MAP_FAILED) {
      why = shared_object_defect({static_cast<const std::byte*>(mapped), size});
      munmap(mapped, size);
    }
  }
  return why;
}

}  // namespace regard
