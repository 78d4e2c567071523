// Linux lets no process trace a setuid program or read its environment. In one, leak detection would fail, as
// it traces its own process, and ASAN_OPTIONS could not switch it off.
#include <sys/auxv.h>

/// The name is the sanitizer's.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return getauxval(AT_SECURE) != 0;
}
