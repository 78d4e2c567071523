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

void on_fault(int number, siginfo_t* info, void* context) {
  if (expected == nullptr) {  // the fault is not from a body
    signal(number, SIG_DFL);
    return;
  }
  expected->address = static_cast<const std::uint8_t*>(info->si_addr);
  // The processor's error code has bit 1 set for a write.
  expected->written = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
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
