// What the CPU reports about itself, limited to what the operating system saves. No file is read: descriptors
// may be used up, and /proc may not exist.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/process_lifetime.h"
#include "device/cpu/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace regard::cpu {
namespace {

#if defined(__x86_64__)

enum Register : std::uint8_t { eax, ebx, ecx, edx };
using Answer = std::array<std::uint32_t, 4>;

/// Zeros where the CPU has no such leaf.
Answer ask(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  Answer answer{};
  __get_cpuid_count(leaf, subleaf, &answer[eax], &answer[ebx], &answer[ecx], &answer[edx]);
  return answer;
}

/// Bits of the registers that the operating system saves for each thread (XCR0).
constexpr std::uint64_t always = 0, vectors = 0x6, vectors_512 = 0xE6, tiles = 0x60000;

std::uint64_t kept_by_system() {
  constexpr std::uint32_t has_xgetbv = 1u << 27;
  if ((ask(1)[ecx] & has_xgetbv) == 0) return 0;
  std::uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

struct Flag {
  std::string_view name;  ///< as in /proc/cpuinfo
  std::uint32_t leaf, subleaf;
  Register where;
  int bit;
  std::uint64_t kept;  ///< register state that the system must save for programs to use it
};

/// Those that targets ask for, and the levels of x86-64 that -march names.
constexpr Flag flags[] = {
    {"sse2", 1, 0, edx, 26, always},
    {"ssse3", 1, 0, ecx, 9, always},
    {"sse4_1", 1, 0, ecx, 19, always},
    {"sse4_2", 1, 0, ecx, 20, always},
    {"movbe", 1, 0, ecx, 22, always},
    {"popcnt", 1, 0, ecx, 23, always},
    {"fma", 1, 0, ecx, 12, vectors},
    {"avx", 1, 0, ecx, 28, vectors},
    {"f16c", 1, 0, ecx, 29, vectors},
    {"bmi1", 7, 0, ebx, 3, always},
    {"avx2", 7, 0, ebx, 5, vectors},
    {"bmi2", 7, 0, ebx, 8, always},
    {"avx512f", 7, 0, ebx, 16, vectors_512},
    {"avx512dq", 7, 0, ebx, 17, vectors_512},
    {"avx512cd", 7, 0, ebx, 28, vectors_512},
    {"avx512bw", 7, 0, ebx, 30, vectors_512},
    {"avx512vl", 7, 0, ebx, 31, vectors_512},
    {"avx512vbmi", 7, 0, ecx, 1, vectors_512},
    {"avx512_vnni", 7, 0, ecx, 11, vectors_512},
    {"amx_bf16", 7, 0, edx, 22, tiles},
    {"avx512_fp16", 7, 0, edx, 23, vectors_512},
    {"amx_tile", 7, 0, edx, 24, tiles},
    {"amx_int8", 7, 0, edx, 25, tiles},
    {"avx512_bf16", 7, 1, eax, 5, vectors_512},
    {"amx_fp16", 7, 1, eax, 21, tiles},
    {"abm", 0x80000001, 0, ecx, 5, always},
};

std::vector<std::string> read_flags() {
  const std::uint64_t kept = kept_by_system();
  std::vector<std::string> names;
  for (const Flag& flag : flags) {
    const bool there = (ask(flag.leaf, flag.subleaf)[flag.where] >> flag.bit & 1) != 0;
    if (there && (kept & flag.kept) == flag.kept) names.emplace_back(flag.name);
  }
  return names;
}

/// The characters that registers hold.
std::string text_of(std::initializer_list<std::uint32_t> registers) {
  std::string text;
  for (const std::uint32_t one : registers) {
    char letters[sizeof one];
    std::memcpy(letters, &one, sizeof one);
    text.append(letters, sizeof letters);
  }
  return text;
}

std::string read_vendor() {
  const Answer answer = ask(0);
  return text_of({answer[ebx], answer[edx], answer[ecx]});
}

std::string read_model() {
  std::string text;
  for (const std::uint32_t leaf : {0x80000002u, 0x80000003u, 0x80000004u}) {
    const Answer answer = ask(leaf);
    text += text_of({answer[eax], answer[ebx], answer[ecx], answer[edx]});
  }
  text.resize(std::strlen(text.c_str()));
  const std::size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last + 1 - first);
}

#else

// No target asks for flags of another architecture.
std::vector<std::string> read_flags() {
  return {};
}
std::string read_vendor() {
  return "";
}
std::string read_model() {
  return "";
}

#endif

}  // namespace

std::span<const std::string> cpu_flags() {
  return process_lifetime<read_flags>();
}

std::string_view cpu_vendor() {
  return process_lifetime<read_vendor>();
}

std::string_view cpu_model() {
  return process_lifetime<read_model>();
}

}  // namespace regard::cpu
