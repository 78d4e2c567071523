#include "base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace regard {

int above_standard_streams(int descriptor) {
  if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
  const int higher = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(descriptor);
  if (higher >= 0 && lseek(higher, 0, SEEK_CUR) > 0) {  // another thread has just read or printed there
    [[maybe_unused]] const int emptied = ftruncate(higher, 0);
    lseek(higher, 0, SEEK_SET);
  }
  errno = error;
  return higher;
}

Descriptor::~Descriptor() {
  if (number_ < 0) return;
  const int error = errno;
  close(number_);
  errno = error;
}

}  // namespace regard
