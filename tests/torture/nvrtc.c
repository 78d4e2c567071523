// A wrapper around NVRTC that writes to $COMPILES when a compile starts and ends, as compiler.sh does. NVRTC
// often asks whether to cancel a kernel's compile: the $KILL_INSIDE-th time kills the process. The wrapper is
// linked with the real library, which provides all other functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int asked;  // which build it is, with an empty program: that is no kernel

static void tell(const char* what) {
  char line[64];
  const int size = snprintf(line, sizeof line, "%s %d\n", what, (int)getpid());
  const int file = open(getenv("COMPILES"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (asked || file < 0 || write(file, line, (size_t)size) != size) line[0] = 0;
  close(file);
}

int nvrtcCreateProgram(void** program, const char* source, const char* name, int headers,
                       const char* const* texts, const char* const* names) {
  int (*const real)() = (int (*)())dlsym(RTLD_NEXT, __func__);
  asked = strcmp(name, "empty.cu") == 0;
  return real(program, source, name, headers, texts, names);
}

static _Thread_local int (*stop)(void*, void*);
static _Thread_local long times;

static int stop_or_kill(void* self, void* reserved) {
  const char* const kill_at = getenv("KILL_INSIDE");
  if (!asked && kill_at != NULL && ++times == atol(kill_at)) kill(getpid(), SIGKILL);
  return stop(self, reserved);
}

int nvrtcSetFlowCallback(void* program, int (*callback)(void*, void*), void* self) {
  int (*const real)() = (int (*)())dlsym(RTLD_NEXT, __func__);
  stop = callback;
  return real(program, stop_or_kill, self);
}

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  int (*const real)() = (int (*)())dlsym(RTLD_NEXT, __func__);
  const char* const pause = getenv("PAUSE");
  tell("start");
  if (!asked && pause != NULL) usleep((unsigned)(atof(pause) * 1e6));
  const int result = real(program, count, options);
  tell("end");
  return result;
}
