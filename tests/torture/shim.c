/* Loaded into the tested process before libc (LD_PRELOAD): kills the process at a chosen call, or makes its
 * locks fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

static long kill_at, calls; /* 0: never */
static int no_locks;

__attribute__((constructor)) static void start(void) {
  extern char* program_invocation_short_name;
  if (strncmp(program_invocation_short_name, "torture_", 8) != 0) return; /* not the compiler */
  if (getenv("KILL_AT")) kill_at = atol(getenv("KILL_AT"));
  no_locks = getenv("NO_LOCKS") != NULL;
}

static void count(void) {
  if (kill_at != 0 && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == kill_at) kill(getpid(), SIGKILL);
}

__attribute__((destructor)) static void end(void) {
  const char* path = getenv("COUNT_CALLS");
  FILE* file = path && kill_at != 0 ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld\n", calls);
  fclose(file);
}

/* Each call counts before and after it, so that the process is killed on both sides. waitpid does not count,
 * as the number of its calls depends on how long the compiler takes. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define COUNTED(type, name, parameters, arguments) \
  type name parameters {                           \
    count();                                       \
    type result = NEXT(name) arguments;            \
    int error = errno;                             \
    count();                                       \
    errno = error;                                 \
    return result;                                 \
  }

COUNTED(ssize_t, write, (int file, const void* data, size_t bytes), (file, data, bytes))
COUNTED(int, fsync, (int file), (file))
COUNTED(int, ftruncate, (int file, off_t length), (file, length))
COUNTED(int, fchmod, (int file, mode_t mode), (file, mode))
COUNTED(int, renameat, (int from, const char* old, int to, const char* name), (from, old, to, name))
COUNTED(int, unlinkat, (int folder, const char* name, int flags), (folder, name, flags))
COUNTED(int, mkdir, (const char* path, mode_t mode), (path, mode))
COUNTED(char*, mkdtemp, (char* path), (path))
COUNTED(int, pipe2, (int ends[2], int flags), (ends, flags))
/* Called before and after vfork, which cannot be wrapped itself. */
COUNTED(int, pthread_sigmask, (int how, const sigset_t* set, sigset_t* before), (how, set, before))

int flock(int file, int operation) {
  count();
  if (no_locks) {
    errno = ENOLCK;
    return -1;
  }
  int result = NEXT(flock)(file, operation);
  int error = errno;
  count();
  errno = error;
  return result;
}

int openat(int folder, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(more, mode_t) : 0;
  va_end(more);
  count();
  int result = NEXT(openat)(folder, path, flags, mode);
  int error = errno;
  count();
  errno = error;
  return result;
}
