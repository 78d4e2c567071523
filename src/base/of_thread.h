// A value of each thread, gone with it. Not a thread_local one: where there is no memory for a thread's first
// look at the variables of a library that was loaded later, or for the list of destructors to be called, the
// C library ends the process. The functions of a key say that they failed.
#pragma once

#include <pthread.h>

#include <memory>

namespace regard {

/// At namespace scope: made while the library is loaded, when few keys are taken, as the first ones need no
/// memory.
template <class T>
class OfThread {
 public:
  OfThread() : made_(pthread_key_create(&key_, [](void* value) { delete static_cast<T*>(value); }) == 0) {}
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;

  /// The calling thread's, or null.
  T* get() const { return made_ ? static_cast<T*>(pthread_getspecific(key_)) : nullptr; }

  /// In place of the one before. False where there was no memory for that, and then that one stays.
  bool set(std::unique_ptr<T> fresh) const {
    T* const before = get();
    if (!made_ || pthread_setspecific(key_, fresh.get()) != 0) return false;
    (void)fresh.release();
    delete before;
    return true;
  }

 private:
  pthread_key_t key_{};
  bool made_;
};

}  // namespace regard
