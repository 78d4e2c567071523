#include "base/interned_text.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>

namespace regard {
namespace {

struct Entry {
  std::string text;
  Entry* next = nullptr;
};

/// Lists by hash, which only grow. There is no lock, as a fork may interrupt the thread that holds it.
constinit std::array<std::atomic<Entry*>, 1024> lists{};

const std::string* found_in(const Entry* entry, std::string_view text) {
  for (; entry != nullptr; entry = entry->next)
    if (entry->text == text) return &entry->text;
  return nullptr;
}

}  // namespace

InternedText::InternedText(std::string_view text) {
  if (text.empty()) return;
  std::atomic<Entry*>& list = lists[std::hash<std::string_view>()(text) % lists.size()];
  Entry* first = list.load(std::memory_order_acquire);
  text_ = found_in(first, text);
  if (text_ != nullptr) return;
  auto entry = std::make_unique<Entry>(Entry{std::string(text), first});
  while (!list.compare_exchange_weak(entry->next, entry.get(), std::memory_order_acq_rel)) {
    text_ = found_in(entry->next, text);  // another thread may have added it
    if (text_ != nullptr) return;
  }
  text_ = &entry.release()->text;
}

}  // namespace regard
