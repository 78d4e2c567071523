// Keys and signatures as who ships a bundle makes them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "bundle/signature.h"

namespace regard {

/// Makes a private key and puts it into a new file, as OpenSSL and others read it (PKCS#8, PEM), for its
/// owner alone. A file that is there is never written over. Gives the public key that belongs to it.
Result<PublicKey> make_key_file(const std::string& path);

/// Whether it can be signed with; errors are sentences that name the file.
Status check_key_file(const std::string& path);

/// A signature of these bytes with the key of a file that its owner alone can read and write.
Result<bundle::Signature> sign(std::span<const std::byte> bytes, const std::string& key_file);

/// Reads and checks all of a bundle, then replaces it, in one step, by the same with a signature of this key;
/// one that it had goes. Gives the public key. Errors are sentences that name the file.
Result<PublicKey> sign_bundle(const std::string& path, const std::string& key_file);

}  // namespace regard
