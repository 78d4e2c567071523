#include "base/own_descriptor.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/fork_local.h"

namespace regard {
namespace {

// Descriptor + 1, so that zero is an empty place. Those for which there is no place are not closed in
// children.
constinit std::array<std::atomic<int>, 256> open_ones{};

void close_all_in_child() {
  for (std::atomic<int>& place : open_ones) {
    if (const int taken = place.exchange(0)) close(taken - 1);
  }
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, close_all_in_child);

}  // namespace

OwnDescriptor::OwnDescriptor(int number) : number_(number), born_(fork_count()) {
  if (number < 0) return;
  for (std::atomic<int>& place : open_ones) {
    int empty = 0;
    if (place.compare_exchange_strong(empty, number + 1)) return;
  }
}

OwnDescriptor::~OwnDescriptor() {
  if (number() < 0) return;
  for (std::atomic<int>& place : open_ones) {
    int ours = number_ + 1;
    if (place.compare_exchange_strong(ours, 0)) break;
  }
  close(number_);
}

int OwnDescriptor::number() const {
  return born_ == fork_count() ? number_ : -1;
}

}  // namespace regard
