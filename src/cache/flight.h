// One thread at a time makes the entry of a key; others that need it meanwhile get the same result.
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

  /// Calls make() in one of the threads that ask at the same time. An exception from make() becomes an error.
  Made run(const Digest& key, const std::function<Made()>& make);

 private:
  struct Tables;  // one for each process along a chain of forks
  std::unique_ptr<Tables> tables_;
};

}  // namespace regard::cache
