// Memory of the target that a test runs on.
#pragma once

#include <te_regard.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace test {

inline const char* target = nullptr;  // a CPU target, "cuda", or null for the best CPU target of this machine

inline bool on_gpu() {
  return target != nullptr && std::strncmp(target, "cpu", 3) != 0;
}

inline void must(te_regard_status status) {
  if (status != TE_REGARD_OK) throw std::runtime_error(te_regard_status_message());
}

/// Memory of the target with a copy on the host, filled with values that no kernel writes.
template <class Number>
class Memory {
 public:
  explicit Memory(std::int64_t count) : host(static_cast<std::size_t>(count)) {
    std::memset(host.data(), 0xFF, host.size() * sizeof(Number));  // NaN
    must(te_regard_memory_allocate(on_gpu() ? target : nullptr, bytes(), &memory_));
  }
  explicit Memory(const std::vector<Number>& values) : Memory(static_cast<std::int64_t>(values.size())) {
    host = values;
    upload();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { te_regard_memory_free(memory_); }

  void upload() { must(te_regard_memory_copy(memory_, host.data(), bytes())); }
  void download() {
    must(te_regard_stream_wait(on_gpu() ? target : nullptr, nullptr));
    must(te_regard_memory_copy(host.data(), memory_, bytes()));
  }
  void* data() { return memory_; }

  std::vector<Number> host;

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(host.size() * sizeof(Number)); }
  void* memory_ = nullptr;
};

}  // namespace test
