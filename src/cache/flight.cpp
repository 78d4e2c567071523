#include "cache/flight.h"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

namespace regard::cache {
namespace {

// Counts forks on the way from the first process to this one. A forked child has its parent's table, but not
// the threads that would land its flights, and perhaps its mutex in a locked state: it starts with a new one.
std::atomic<unsigned> forks{0};

void count_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

Made guarded(const std::function<Made()>& make) {
  const auto error = [](ErrorKind kind, const std::string& what) { return Made{fail(kind, what)}; };
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return error(ErrorKind::no_memory, "there is not enough memory to make the kernel");
  } catch (const std::exception& thrown) {
    return error(ErrorKind::internal, std::string("making the kernel failed: ") + thrown.what());
  } catch (...) {
    return error(ErrorKind::internal, "making the kernel failed with an unknown exception");
  }
}

struct Flight {
  const std::thread::id pilot = std::this_thread::get_id();
  std::optional<Made> made;
};

}  // namespace

struct Flights::Table {
  const unsigned born = forks.load(std::memory_order_relaxed);
  std::mutex mutex;
  std::condition_variable landed;
  std::map<Digest, std::shared_ptr<Flight>> flights;
};

Flights::Flights() : table_(nullptr) {
  count_forks();
  table_ = new Table;
}

Flights::~Flights() {
  delete table_.load();
}

Flights::Table& Flights::table() {
  Table* current = table_.load();
  if (current->born == forks.load(std::memory_order_relaxed)) return *current;
  Table* const fresh = new Table;
  if (table_.compare_exchange_strong(current, fresh)) return *fresh;  // the parent's is left as it is
  delete fresh;
  return *current;
}

Made Flights::run(const Digest& key, const std::function<Made()>& make) {
  Table& table = this->table();
  std::shared_ptr<Flight> flight;
  {
    std::unique_lock lock(table.mutex);
    std::shared_ptr<Flight>& entry = table.flights[key];
    if (entry != nullptr) {
      flight = entry;
      if (flight->pilot == std::this_thread::get_id()) {
        return Made{fail(ErrorKind::internal, "a kernel was asked for while the same thread was making it")};
      }
      table.landed.wait(lock, [&] { return flight->made.has_value(); });
      return *flight->made;
    }
    entry = flight = std::make_shared<Flight>();
  }
  Made made = guarded(make);
  if (&table != &this->table()) return made;  // make() forked, and this is the child
  {
    const std::lock_guard lock(table.mutex);
    flight->made = made;
    table.flights.erase(key);
  }
  table.landed.notify_all();
  return made;
}

}  // namespace regard::cache
