// OpenSSL as this library needs it: separate from the host program's, whose settings and providers may lack
// Ed25519.
#pragma once

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <memory>

#include "base/result.h"

namespace regard::bundle {

/// Leaves the thread's error queue, which it shares with the host program, as it was.
class OpenSsl {
 public:
  OpenSsl();
  ~OpenSsl();
  OpenSsl(const OpenSsl&) = delete;
  OpenSsl& operator=(const OpenSsl&) = delete;

  explicit operator bool() const { return context_ != nullptr; }
  OSSL_LIB_CTX* context() const { return context_; }

 private:
  OSSL_LIB_CTX* context_;
};

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using KeyOwner = std::unique_ptr<EVP_PKEY, FreeKey>;

struct FreeMessage {
  void operator()(EVP_MD_CTX* message) const { EVP_MD_CTX_free(message); }
};
using MessageOwner = std::unique_ptr<EVP_MD_CTX, FreeMessage>;

/// "OpenSSL cannot WHAT: its own words", from its latest error.
tl::unexpected<Error> openssl_error(const char* what);

}  // namespace regard::bundle
