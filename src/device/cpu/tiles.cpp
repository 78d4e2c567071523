#include <cerrno>
#include <cstring>

#include "base/process_lifetime.h"
#include "base/result.h"
#include "device/cpu/cpu.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace regard::cpu {

Status allow_tiles() {
  return process_lifetime_unless_scarce<[]() -> Status {
#if defined(__x86_64__)
    // From <asm/prctl.h> and the kernel's list of xstate components; older headers do not define them.
    constexpr long request_permission = 0x1023, tile_data = 18;
    if (syscall(SYS_arch_prctl, request_permission, tile_data) == 0) return {};
    return fail(kind_of(errno, ErrorKind::refused),
                std::string("the operating system does not let this process use the tile registers of "
                            "AMX (arch_prctl: ") +
                    std::strerror(errno) + ")");
#else
    return refused("this is no x86 processor, which AMX is a part of");
#endif
  }>();
}

}  // namespace regard::cpu
