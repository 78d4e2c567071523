// Device memory and copies.
#include <fmt/format.h>

#include "device/cuda.h"

namespace regard::cuda {

Result<void*> allocate(const Device& device, std::int64_t bytes) {
  const Use use(device);
  if (!use.status()) return tl::unexpected(use.status().error());
  Address address = 0;
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  const Code code = driver()->allocate(&address, size);
  if (code == out_of_memory) {
    return fail(ErrorKind::no_memory, fmt::format("{} has no {} bytes of memory left", device.name, bytes));
  }
  if (Status status = check(code, "allocate memory"); !status) return tl::unexpected(status.error());
  return reinterpret_cast<void*>(address);
}

OrderedMemory::OrderedMemory(const Device& device, std::int64_t bytes, Stream stream)
    : device_(device), stream_(stream) {
  if (bytes == 0) return;
  const Use use(device);
  status_ = use.status();
  if (status_) {
    status_ = check(driver()->allocate_ordered(&address_, static_cast<std::size_t>(bytes), stream),
                    "allocate memory");
  }
}

OrderedMemory::~OrderedMemory() {
  if (address_ == 0) return;
  const Use use(device_);
  if (use.status()) driver()->release_ordered(address_, stream_);
}

Status release(const Device& device, void* memory) {
  const Use use(device);
  if (!use.status()) return use.status();
  forget_sightings();
  return check(driver()->release(reinterpret_cast<Address>(memory)), "free memory");
}

Status copy(const Device& device, void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return {};
  const Use use(device);
  if (!use.status()) return use.status();
  return check(driver()->copy(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from),
                              static_cast<std::size_t>(bytes)),
               "copy memory");
}

Status wait(const Device& device, Stream stream) {
  const Use use(device);
  if (!use.status()) return use.status();
  return check(driver()->synchronize(stream), "wait for a stream");
}

}  // namespace regard::cuda
