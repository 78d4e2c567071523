// Making keys and signatures, for those who ship bundles.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "bundle/signature.h"

namespace regard {

/// Makes a private key and writes it to a new file, in the format that OpenSSL and others read (PKCS#8, PEM),
/// accessible only to its owner. An existing file is never overwritten. Returns the public key that belongs
/// to it.
Result<PublicKey> make_key_file(const std::string& path);

/// Whether the key can be used for signing; errors are sentences that name the file.
Status check_key_file(const std::string& path);

/// A signature of these bytes with the key in a file that only its owner can read and write.
Result<bundle::Signature> sign(std::span<const std::byte> bytes, const std::string& key_file);

/// Reads and checks a whole bundle, then replaces it, in one step, by the same with a signature of this key,
/// instead of any signature that it had. Returns the public key. Errors are sentences that name the file.
Result<PublicKey> sign_bundle(const std::string& path, const std::string& key_file);

}  // namespace regard
