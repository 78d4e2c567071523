#include "bundle/signing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "bundle/compressed.h"
#include "bundle/own_openssl.h"

namespace regard {
namespace {

using bundle::KeyOwner;
using bundle::MessageOwner;
using bundle::OpenSsl;

constexpr std::uint64_t longest_key_file = 16 << 10;

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using BioOwner = std::unique_ptr<BIO, FreeBio>;

Result<PublicKey> public_part(EVP_PKEY* key) {
  PublicKey part;
  std::size_t size = part.bytes.size();
  if (EVP_PKEY_get_raw_public_key(key, part.bytes.data(), &size) != 1)
    return bundle::openssl_error("give the public key");
  return part;
}

Status write_new(const std::string& path, std::span<const std::byte> text) {
  const auto cannot = [&](int error) {
    const std::string why = error == EEXIST ? "it is there already, and a key is never written over a file"
                                            : std::string(std::strerror(error));
    return fail(kind_of(error, ErrorKind::invalid), fmt::format("cannot write {}: {}", printable(path), why));
  };
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return cannot(errno);
  if (!write_all(file.number(), text) || fsync(file.number()) != 0 || close(file.release()) != 0) {
    const int error = errno;
    unlink(path.c_str());
    return cannot(error);
  }
  return {};
}

/// The file may require a password, but there is no one to enter it.
int no_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

/// A text that is erased from memory afterwards.
struct Secret {
  std::string text;
  ~Secret() { OPENSSL_cleanse(text.data(), text.size()); }
};

/// Anyone who can read the file can sign in its owner's name, and anyone who can write it can have another
/// key trusted.
Status check_private(const RegularFile& file) {
  const unsigned mode = file.status().st_mode & 0777;
  if ((mode & 0066) == 0) return {};
  return invalid(fmt::format(
      "users other than its owner can read or write it (its mode is {:o}); `chmod 600` fixes that", mode));
}

Status read_text(const std::string& path, Secret& secret) {
  const Result<RegularFile> file = RegularFile::open(path, Links::followed);
  if (!file) return tl::unexpected(file.error());
  if (const Status own = check_private(*file); !own) return own;
  if (file->bytes() > longest_key_file)
    return invalid(fmt::format("it is larger than {} bytes", longest_key_file));
  secret.text.resize(static_cast<std::size_t>(file->bytes()));
  return file->read(std::as_writable_bytes(std::span(secret.text)));
}

Result<KeyOwner> read_key(const std::string& path, const OpenSsl& own) {
  const auto wrong = [&](ErrorKind kind, const std::string& why) {
    return fail(kind, "the key file " + in_quotes(path) + " cannot be used: " + why);
  };
  Secret secret;
  if (const Status read = read_text(path, secret); !read)
    return wrong(read.error().kind, read.error().message);
  const BioOwner bio(BIO_new_mem_buf(secret.text.data(), static_cast<int>(secret.text.size())));
  if (!bio) return bundle::openssl_error("read a key");
  bool encrypted = false;
  KeyOwner key(
      PEM_read_bio_PrivateKey_ex(bio.get(), nullptr, no_password, &encrypted, own.context(), nullptr));
  if (encrypted) return wrong(ErrorKind::invalid, "it is encrypted; give one without a password");
  if (!key)
    return wrong(ErrorKind::invalid,
                 "it has no private key in PEM (PKCS#8), as `regard bundle keygen` writes it");
  if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519)
    return wrong(ErrorKind::invalid, "its key is not one for Ed25519");
  return key;
}

Result<bundle::Signature> sign(std::span<const std::byte> bytes, EVP_PKEY* key, const OpenSsl& own) {
  const Result<PublicKey> signer = public_part(key);
  if (!signer) return tl::unexpected(signer.error());
  bundle::Signature signature{*signer};
  std::size_t size = signature.bytes.size();
  const MessageOwner message(EVP_MD_CTX_new());
  if (!message ||
      EVP_DigestSignInit_ex(message.get(), nullptr, nullptr, own.context(), nullptr, key, nullptr) != 1 ||
      EVP_DigestSign(message.get(), signature.bytes.data(), &size,
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) != 1)
    return bundle::openssl_error("sign");
  return signature;
}

/// Writes the bundle again, each kernel checked, followed by the signature.
Status write_signed(const Bundle& sound, const bundle::Signature& signature) {
  Result<AtomicFile> file = AtomicFile::make(sound.path());
  if (!file) return tl::unexpected(file.error());
  if (Status written = file->write(sound.header()); !written) return written;
  for (const BundleKernel& kernel : sound.kernels()) {
    const Result<std::vector<std::byte>> compressed = sound.read_compressed(kernel);
    if (!compressed)
      return fail(compressed.error().kind, printable(sound.path()) + ": " + compressed.error().message);
    if (Status written = file->write(*compressed); !written) return written;
  }
  if (Status written = file->write(sound.index()); !written) return written;
  if (Status written = file->write(encode(signature)); !written) return written;
  if (Status synced = file->sync(); !synced) return synced;
  return file->publish();
}

}  // namespace

Result<PublicKey> make_key_file(const std::string& path) {
  const OpenSsl own;
  if (!own) return bundle::openssl_error("start");
  const KeyOwner key(EVP_PKEY_Q_keygen(own.context(), nullptr, "ED25519"));
  const BioOwner bio(BIO_new(BIO_s_secmem()));
  if (!key || !bio ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return bundle::openssl_error("make a key");
  const char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  const Result<PublicKey> made = public_part(key.get());
  if (!made) return made;
  return write_new(path, std::as_bytes(std::span(text, static_cast<std::size_t>(size)))).map([&] {
    return *made;
  });
}

Status check_key_file(const std::string& path) {
  const OpenSsl own;
  if (!own) return bundle::openssl_error("start");
  return read_key(path, own).map([](const KeyOwner&) {});
}

Result<bundle::Signature> sign(std::span<const std::byte> bytes, const std::string& key_file) {
  const OpenSsl own;
  if (!own) return bundle::openssl_error("start");
  const Result<KeyOwner> key = read_key(key_file, own);
  if (!key) return tl::unexpected(key.error());
  return sign(bytes, key->get(), own);
}

Result<PublicKey> sign_bundle(const std::string& path, const std::string& key_file) {
  const OpenSsl own;
  if (!own) return bundle::openssl_error("start");
  const Result<KeyOwner> key = read_key(key_file, own);
  if (!key) return tl::unexpected(key.error());
  const auto sound = Bundle::open(path);
  if (!sound) return fail(sound.error().kind, printable(path) + ": " + sound.error().message);
  const Result<bundle::Signature> signature = sign((*sound)->header(), key->get(), own);
  if (!signature) return tl::unexpected(signature.error());
  return write_signed(**sound, *signature).map([&] { return signature->signer; });
}

}  // namespace regard
