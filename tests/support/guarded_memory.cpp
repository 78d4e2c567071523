#include "support/guarded_memory.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace regard::test {
namespace {

/// On each side: more than one step of a kernel could overshoot.
constexpr std::size_t forbidden_bytes = std::size_t{1} << 20;

std::vector<const GuardedMemory*>& all() {
  static std::vector<const GuardedMemory*> memories;
  return memories;
}

struct Fault {
  sigjmp_buf back;
  const std::uint8_t* address;
  bool written;
};
thread_local Fault* expected = nullptr;

/// Whether the faulting instruction wrote.
bool is_write(const ucontext_t& at) {
#if defined(__x86_64__)
  return (at.uc_mcontext.gregs[REG_ERR] & 2) != 0;  // of the processor's error code
#elif defined(__aarch64__)
  // By the instruction, as not every system passes on what the processor says.
  std::uint32_t code;
  std::memcpy(&code, reinterpret_cast<const void*>(at.uc_mcontext.pc), sizeof code);
  if ((code & 0xfffff000) == 0xd50b7000) return true;                   // dc zva: zeros
  if ((code & 0x3b000000) == 0x18000000) return false;                  // a constant beside the code
  if ((code & 0x3b200c00) == 0x38200000) return true;                   // an atomic operation
  if ((code & 0x3a000000) != 0x38000000) return (code >> 22 & 1) == 0;  // pairs, exclusive ones, structures
  const std::uint32_t size = code >> 30, vector = code >> 26 & 1, kind = code >> 22 & 3;
  return kind == 0 || (kind == 2 && vector == 1 && size == 0);  // the latter: a whole vector
#else
#error "tell reads from writes here"
#endif
}

void on_fault(int number, siginfo_t* info, void* context) {
  if (expected == nullptr) {  // the fault is not from a body
    signal(number, SIG_DFL);
    return;
  }
  expected->address = static_cast<const std::uint8_t*>(info->si_addr);
  expected->written = is_write(*static_cast<ucontext_t*>(context));
  siglongjmp(expected->back, 1);
}

}  // namespace

GuardedMemory::GuardedMemory(std::string name, std::int64_t bytes, Guarded edge)
    : name_(std::move(name)), bytes_(bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
             requested = static_cast<std::size_t>(bytes);
  const std::size_t usable = (requested + page - 1) / page * page;
  const std::size_t mapped = usable + 2 * forbidden_bytes;
  void* const start = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* const first = static_cast<std::uint8_t*>(start) + forbidden_bytes;
  if (start == MAP_FAILED || (usable > 0 && mprotect(first, usable, PROT_READ | PROT_WRITE) != 0)) {
    std::perror("guarded memory");
    std::abort();
  }
  mapped_ = {static_cast<std::uint8_t*>(start), mapped};
  room_ = {first, usable};
  data_ = edge == Guarded::at_end ? first + (usable - requested) : first;
  all().push_back(this);
}

GuardedMemory::~GuardedMemory() {
  std::erase(all(), this);
  munmap(mapped_.data(), mapped_.size());
}

std::string GuardedMemory::place_of(const std::uint8_t* address) const {
  if (address < mapped_.data() || address >= mapped_.data() + mapped_.size()) return {};
  return "byte " + std::to_string(address - data_) + " of " + name_ + ", which has " +
         std::to_string(bytes_) + " bytes";
}

std::string fault_of(const std::function<void()>& body) {
  constexpr std::array signals = {SIGSEGV, SIGBUS};
  std::array<struct sigaction, signals.size()> before;
  struct sigaction handler{};
  handler.sa_sigaction = on_fault;
  handler.sa_flags = SA_SIGINFO;
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &handler, &before[i]);
  static thread_local Fault fault;
  static thread_local bool faulted;
  expected = &fault;
  faulted = sigsetjmp(fault.back, 1) != 0;
  if (!faulted) body();
  expected = nullptr;
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before[i], nullptr);
  if (!faulted) return {};
  const std::string verb = fault.written ? "wrote " : "read ";
  for (const GuardedMemory* memory : all())
    if (const std::string place = memory->place_of(fault.address); !place.empty()) return verb + place;
  char text[80];
  std::snprintf(text, sizeof text, "%sat address %p, which is none of its memory", verb.c_str(),
                static_cast<const void*>(fault.address));
  return text;
}

}  // namespace regard::test
