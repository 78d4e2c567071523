// The numbers of one stage's kernel, which follow the arguments of a call (kernels/kernel_arguments.h): here
// they are bytes, so that only the kernel's two halves know what they mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "plan/workspace.h"

namespace regard {

class Schedule {
 public:
  static constexpr std::size_t most_bytes = 768;

  Schedule() = default;
  template <class Numbers>
  explicit Schedule(const Numbers& numbers) : size_(sizeof numbers) {
    static_assert(std::is_trivially_copyable_v<Numbers> && sizeof numbers <= most_bytes);
    std::memcpy(bytes_.data(), &numbers, sizeof numbers);
  }

  /// What `member` points to in every call: a part of the workspace, or nothing (WorkspaceLayout::none).
  template <class Numbers, class T>
  void point(T* Numbers::* member, int part) {
    if (part == WorkspaceLayout::none) return;
    const Numbers example{};
    const auto* const at = reinterpret_cast<const std::byte*>(&(example.*member));
    pointers_.push_back({static_cast<std::size_t>(at - reinterpret_cast<const std::byte*>(&example)), part});
  }

  std::size_t size() const { return size_; }

  /// As the kernel's plan made them. Only for its own kernel, and for kernels whose schedule begins with
  /// `Numbers`.
  template <class Numbers>
  Numbers as() const {
    Numbers numbers;
    std::memcpy(&numbers, bytes_.data(), sizeof numbers);
    return numbers;
  }

  /// For a call with this workspace.
  void write(std::byte* to, const WorkspaceLayout& layout, void* workspace) const {
    std::memcpy(to, bytes_.data(), size_);
    for (const Pointer& pointer : pointers_) {
      void* const part = layout.at(pointer.part, workspace);
      std::memcpy(to + pointer.position, &part, sizeof part);
    }
  }

 private:
  struct Pointer {
    std::size_t position;
    int part;
  };

  std::array<std::byte, most_bytes> bytes_{};
  std::size_t size_ = 0;
  std::vector<Pointer> pointers_;
};

}  // namespace regard
