#include "cache/flight.h"

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "base/process_lifetime.h"

namespace regard::cache {
namespace {

/// Short enough to need no allocation, as there is no memory for one.
Made out_of_memory() noexcept {
  return Made{fail(ErrorKind::no_memory, "out of memory")};
}

Made or_error(const std::function<Made()>& make) {
  const auto internal = [](const std::string& what) { return Made{fail(ErrorKind::internal, what)}; };
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& thrown) {
    return internal(std::string("making the kernel failed: ") + thrown.what());
  } catch (...) {
    return internal("making the kernel failed with an unknown exception");
  }
}

/// Throws nothing, as others wait for its end: there may not even be memory for an error's sentence.
Made guarded(const std::function<Made()>& make) noexcept {
  try {
    return or_error(make);
  } catch (...) {
    return out_of_memory();
  }
}

struct Flight {
  const std::thread::id pilot = std::this_thread::get_id();
  std::optional<Made> made;
};

/// Needed as copying a result that holds an entry does not report a lack of memory.
Made copy_of(const Made& made) {
  if (!made.entry) return made;
  return Made{CacheEntry(*made.entry), made.from_cache, made.not_kept};
}

/// Each waiting thread gets a copy or, where there is no memory for one, that error.
void land(Flight& flight, const Made& made) {
  try {
    flight.made.emplace(copy_of(made));
  } catch (const std::bad_alloc&) {
    flight.made.emplace(out_of_memory());
  }
}

struct Table {
  std::mutex mutex;
  std::condition_variable landed;
  std::map<Digest, std::shared_ptr<Flight>> flights;
};

}  // namespace

struct Flights::Tables : ForkLocal<Table> {};

Flights::Flights() : tables_(std::make_unique<Tables>()) {}

Flights::~Flights() = default;

Made Flights::run(const Digest& key, const std::function<Made()>& make) {
  Table& table = tables_->get();
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
      return copy_of(*flight->made);
    }
    entry = flight = std::make_shared<Flight>();
  }
  Made made = guarded(make);
  if (&table != &tables_->get()) return made;  // make() forked, and this is the child
  {
    const std::lock_guard lock(table.mutex);
    table.flights.erase(key);
    land(*flight, made);
  }
  table.landed.notify_all();
  return made;
}

}  // namespace regard::cache
