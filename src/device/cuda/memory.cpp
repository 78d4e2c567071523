// Memory of NVIDIA GPUs, copies, and streams.
#include <fmt/format.h>

#include "device/cuda/cuda.h"

namespace regard::cuda {

Result<void*> allocate(const Device& device, std::int64_t bytes) {
  Address address = 0;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  const Code code = driver()->allocate(&address, size);
  if (code == out_of_memory) {
    return fail(ErrorKind::no_memory, fmt::format("{} has no {} bytes of memory left", device.name, bytes));
  }
  if (Status status = check(code, "allocate memory"); !status) return tl::unexpected(status.error());
  return reinterpret_cast<void*>(address);
}

Status release(void* memory) {
  return check(driver()->release(reinterpret_cast<Address>(memory)), "free memory");
}

Result<void*> allocate_ordered(std::int64_t bytes, Stream stream) {
  Address address = 0;
  if (Status status = check(driver()->allocate_ordered(&address, static_cast<std::size_t>(bytes), stream),
                            "allocate memory");
      !status)
    return tl::unexpected(status.error());
  return reinterpret_cast<void*>(address);
}

void release_ordered(void* memory, Stream stream) {
  driver()->release_ordered(reinterpret_cast<Address>(memory), stream);
}

Status copy(void* to, const void* from, std::int64_t bytes) {
  return check(driver()->copy(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from),
                              static_cast<std::size_t>(bytes)),
               "copy memory");
}

Status clear(void* memory, std::int64_t bytes, Stream stream) {
  return check(
      driver()->fill_ordered(reinterpret_cast<Address>(memory), 0, static_cast<std::size_t>(bytes), stream),
      "clear memory");
}

Status wait(Stream stream) {
  return check(driver()->synchronize(stream), "wait for a stream");
}

bool is_capturing(Stream stream) {
  int capturing = 0;
  return driver()->is_capturing(stream, &capturing) != success || capturing != 0;
}

bool number_of(Stream stream, std::uint64_t& number) {
  unsigned long long found = 0;
  if (is_capturing(stream)) return false;
  if (driver()->stream_number(stream, &found) != success) return false;
  number = found;
  return true;
}

}  // namespace regard::cuda
