// Memory of AMD GPUs, copies, and streams.
#include <fmt/format.h>

#include "device/hip/hip.h"

namespace regard::hip {

Result<void*> allocate(const Device& device, std::int64_t bytes) {
  void* memory = nullptr;
  const Code code = driver()->allocate(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1));
  if (succeeded(code)) return memory;
  if (code == out_of_memory)
    return fail(ErrorKind::no_memory, fmt::format("{} has no {} bytes of memory left", device.name, bytes));
  return tl::unexpected(check(code, "allocate memory").error());
}

Status release(void* memory) {
  return check(driver()->release(memory), "free memory");
}

Result<void*> allocate_ordered(std::int64_t bytes, Stream stream) {
  void* memory = nullptr;
  if (Status status = check(driver()->allocate_ordered(&memory, static_cast<std::size_t>(bytes), stream),
                            "allocate memory");
      !status)
    return tl::unexpected(status.error());
  return memory;
}

void release_ordered(void* memory, Stream stream) {
  succeeded(driver()->release_ordered(memory, stream));
}

Status copy(void* to, const void* from, std::int64_t bytes) {
  return check(driver()->copy(to, from, static_cast<std::size_t>(bytes), copy_any_direction), "copy memory");
}

Status clear(void* memory, std::int64_t bytes, Stream stream) {
  return check(driver()->fill_ordered(memory, 0, static_cast<std::size_t>(bytes), stream), "clear memory");
}

Status wait(Stream stream) {
  return check(driver()->synchronize(stream), "wait for a stream");
}

bool is_capturing(Stream stream) {
  int capturing = 0;
  return !succeeded(driver()->is_capturing(stream, &capturing)) || capturing != 0;
}

}  // namespace regard::hip
