#include "bundle/signature.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "bundle/own_openssl.h"

namespace regard {

namespace bundle {
namespace {

constexpr char mark[8] = {'R', 'E', 'G', 'S', 'I', 'G', 'N', '\n'};

struct Block {
  std::array<char, 8> mark;
  PublicKey signer;
  std::array<std::uint8_t, 64> signature;
};
static_assert(sizeof(Block) == signature_bytes);

}  // namespace

std::vector<std::byte> encode(const Signature& signature) {
  const Block block{std::to_array(mark), signature.signer, signature.bytes};
  const auto bytes = std::as_bytes(std::span(&block, 1));
  return {bytes.begin(), bytes.end()};
}

Result<Signature> decode_signature(std::span<const std::byte> bytes) {
  Block block;
  if (bytes.size() > sizeof block) return invalid("it has more bytes after its index than a signature has");
  if (bytes.size() < sizeof block)
    return invalid("it has " + std::to_string(bytes.size()) + " bytes after its index, and a signature has " +
                   std::to_string(sizeof block));
  std::memcpy(&block, bytes.data(), sizeof block);
  if (block.mark != std::to_array(mark)) return invalid("what follows its index is not a signature");
  return Signature{block.signer, block.signature};
}

Status check(const Signature& signature, std::span<const std::byte> signed_bytes) {
  const OpenSsl own;
  if (!own) return openssl_error("start");
  const PublicKey& signer = signature.signer;
  if (const Status sound = check_key(signer); !sound)
    return invalid("its signature is worth nothing: " + sound.error().message);
  const KeyOwner key(EVP_PKEY_new_raw_public_key_ex(own.context(), "ED25519", nullptr, signer.bytes.data(),
                                                    signer.bytes.size()));
  const MessageOwner message(EVP_MD_CTX_new());
  if (!key || !message ||
      EVP_DigestVerifyInit_ex(message.get(), nullptr, nullptr, own.context(), nullptr, key.get(), nullptr) !=
          1)
    return openssl_error("check a signature");
  const int right =
      EVP_DigestVerify(message.get(), signature.bytes.data(), signature.bytes.size(),
                       reinterpret_cast<const unsigned char*>(signed_bytes.data()), signed_bytes.size());
  if (right != 1) return invalid("its signature is wrong: it was changed after it was signed");
  return {};
}

Status check_signer(const std::optional<Signature>& signature, std::span<const std::byte> signed_bytes,
                    std::span<const PublicKey> trusted) {
  if (!signature && trusted.empty()) return {};
  if (!signature)
    return invalid("it is not signed, and only what has the signature of a trusted key is used");
  if (!trusted.empty() && std::ranges::find(trusted, signature->signer) == trusted.end())
    return invalid("it is signed with the key " + signature->signer.hex() + ", which is not a trusted one");
  return check(*signature, signed_bytes);
}

}  // namespace bundle
}  // namespace regard
