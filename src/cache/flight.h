// One thread at a time makes the entry of a key; the others that ask meanwhile get what it made.
#pragma once

#include <functional>
#include <memory>

#include "cache/cache.h"

namespace regard::cache {

struct Made {
  Result<CacheEntry> entry;
  bool from_cache = false;
  std::string not_kept;  ///< why it could not be published; empty when it was
};

class Flights {
 public:
  Flights();
  ~Flights();
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  /// Calls make() in one of the threads that ask at the same time. What make() throws becomes an error.
  Made run(const Digest& key, const std::function<Made()>& make);

 private:
  struct Tables;  // one for each process on the way of forks
  std::unique_ptr<Tables> tables_;
};

}  // namespace regard::cache
