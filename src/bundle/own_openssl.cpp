#include "bundle/own_openssl.h"

#include <openssl/err.h>

#include <string>

namespace regard::bundle {

OpenSsl::OpenSsl() {
  ERR_set_mark();
  context_ = OSSL_LIB_CTX_new();
}

OpenSsl::~OpenSsl() {
  OSSL_LIB_CTX_free(context_);
  ERR_pop_to_mark();
}

tl::unexpected<Error> openssl_error(const char* what) {
  const unsigned long code = ERR_peek_last_error();
  const char* const reason = ERR_reason_error_string(code);
  const bool no_memory = reason == nullptr || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  return fail(no_memory ? ErrorKind::no_memory : ErrorKind::internal,
              std::string("OpenSSL cannot ") + what + ": " + (no_memory ? "not enough memory" : reason));
}

}  // namespace regard::bundle
