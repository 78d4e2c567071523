// Who signed a bundle, and that it has not been changed since.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include "bundle/own_openssl.h"
#include "bundle/signing.h"
#include "forged.h"

namespace regard {
namespace {

using testing::HasSubstr;

// The second example of RFC 8032, section 7.1.
constexpr const char *rfc_secret = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                     *rfc_public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                     *rfc_signature =
                         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                         "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00";

PublicKey key_of(const std::string& hex) {
  return *parse_public_key(hex);
}

class Signatures : public BundleTest {
 protected:
  PublicKey make_key(const std::string& name) const {
    const Result<PublicKey> made = make_key_file(in_folder(name));
    if (!made) throw std::runtime_error(made.error().message);
    return *made;
  }
  PublicKey sign(const std::string& path, const std::string& key) const {
    const Result<PublicKey> signer = sign_bundle(path, in_folder(key));
    if (!signer) throw std::runtime_error(signer.error().message);
    return *signer;
  }
  /// Writes a key file as OpenSSL does; frees the key.
  std::string pem(const std::string& name, EVP_PKEY* key, const char* password = nullptr) const {
    const std::string path = in_folder(name);
    FILE* const file = std::fopen(path.c_str(), "w");
    PEM_write_PKCS8PrivateKey(file, key, password == nullptr ? nullptr : EVP_aes_256_cbc(), password,
                              password == nullptr ? 0 : static_cast<int>(strlen(password)), nullptr, nullptr);
    std::fclose(file);
    EVP_PKEY_free(key);
    chmod(path.c_str(), 0600);
    return path;
  }
  std::string refusal(const std::string& path, std::vector<PublicKey> trusted) const {
    const auto bundle = Bundle::open(path, trusted);
    return bundle ? "" : bundle.error().message;
  }
};

TEST_F(Signatures, AreThoseOfTheStandard) {
  const std::string message = "\x72";
  const auto bytes = std::as_bytes(std::span(message));
  bundle::Signature signature{key_of(rfc_public)};
  const std::string text = rfc_signature;
  std::ranges::copy(key_of(text.substr(0, 64)).bytes, signature.bytes.begin());
  std::ranges::copy(key_of(text.substr(64)).bytes, signature.bytes.begin() + 32);
  EXPECT_TRUE(bundle::check(signature, bytes));
  EXPECT_FALSE(bundle::check(signature, {}));
  signature.bytes[40] ^= 1;
  const Status wrong = bundle::check(signature, bytes);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, ErrorKind::invalid);
  EXPECT_THAT(wrong.error().message, HasSubstr("its signature is wrong"));

  const PublicKey secret = key_of(rfc_secret);
  const std::string file = pem("key", EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr,
                                                                   secret.bytes.data(), secret.bytes.size()));
  const std::string path = write_kernels("a", {1});
  EXPECT_EQ(sign_bundle(path, file)->hex(), rfc_public);
}

// h*A is 0 for A = 0, whatever the message is, so R = 0 and S = 0 sign every message.
TEST_F(Signatures, OfAPointOfSmallOrderAreRefused) {
  bundle::Signature forged;
  forged.signer.bytes[0] = forged.bytes[0] = 1;  // y = 1
  const std::string message = "anything";
  const bundle::KeyOwner key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, forged.signer.bytes.data(), 32));
  const bundle::MessageOwner context(EVP_MD_CTX_new());
  EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get());
  ASSERT_EQ(EVP_DigestVerify(context.get(), forged.bytes.data(), forged.bytes.size(),
                             reinterpret_cast<const unsigned char*>(message.data()), message.size()),
            1)
      << "OpenSSL accepts it";
  EXPECT_THAT(bundle::check(forged, std::as_bytes(std::span(message))).error().message,
              HasSubstr("its signature is worth nothing: '0100"));
}

TEST_F(Signatures, OfATrustedKeyAreTaken) {
  const PublicKey mine = make_key("mine"), yours = make_key("yours");
  EXPECT_NE(mine, yours);
  const std::string path = write_kernels("a", {1, 2});
  EXPECT_EQ(open(path)->signer(), std::nullopt);
  EXPECT_TRUE(open(path)->checked_signer());
  EXPECT_EQ(sign(path, "mine"), mine);
  EXPECT_EQ(open(path)->signer(), mine);
  EXPECT_EQ(refusal(path, {mine}), "");
  EXPECT_EQ(refusal(path, {yours, mine}), "");
  EXPECT_EQ(refusal(path, {yours}),
            "it is signed with the key " + mine.hex() + ", which is not a trusted one");
  EXPECT_TRUE(open(path)->read(open(path)->kernels()[1]));

  EXPECT_EQ(sign(path, "yours"), yours);
  EXPECT_EQ(refusal(path, {yours}), "");
  EXPECT_NE(refusal(path, {mine}), "");
}

TEST_F(Signatures, AreRequiredWhereKeysAreTrusted) {
  const PublicKey mine = make_key("mine");
  EXPECT_EQ(refusal(write_kernels("a", {1}), {mine}),
            "it is not signed, and only what has the signature of a trusted key is used");
}

TEST_F(Signatures, OfAnotherBundleAreRefused) {
  const PublicKey mine = make_key("mine");
  const std::string a = write_kernels("a", {1}), b = write_kernels("b", {2});
  const std::string unsigned_b = read_bytes(b);
  sign(a, "mine");
  const std::string bytes = read_bytes(a);
  const std::string moved = unsigned_b + bytes.substr(bytes.size() - 104);
  EXPECT_EQ(wrong_with(moved, std::vector{mine}),
            "its signature is wrong: it was changed after it was signed");
  const auto bundle = open_bytes(moved);
  ASSERT_TRUE(bundle) << "without trusted keys no signature is required";
  EXPECT_THAT((*bundle)->checked_signer().error().message, HasSubstr("its signature is wrong"));
  EXPECT_EQ((*bundle)->signer(), std::nullopt);
}

TEST_F(Signatures, AddNothingElse) {
  make_key("mine");
  const std::string path = write_kernels("a", {1, 2});
  const std::string before = read_bytes(path);
  sign(path, "mine");
  EXPECT_EQ(read_bytes(path).substr(0, before.size()), before);
  EXPECT_EQ(read_bytes(path).size(), before.size() + 104);
  const std::string once = read_bytes(path);
  sign(path, "mine");
  EXPECT_EQ(read_bytes(path), once) << "the same key gives the same signature";
}

TEST_F(Signatures, AreNotGivenToDamagedBundles) {
  make_key("mine");
  const std::string path = write_kernels("a", {1});
  std::string bytes = read_bytes(path);
  bytes[70] = static_cast<char>(~bytes[70]);
  std::ofstream(path, std::ios::binary) << bytes;
  const Result<PublicKey> signer = sign_bundle(path, in_folder("mine"));
  ASSERT_FALSE(signer);
  EXPECT_THAT(signer.error().message,
              HasSubstr("its kernel 'cpu-any kernel_1' is damaged: the checksum is wrong"));
  EXPECT_EQ(read_bytes(path), bytes);
  EXPECT_EQ(files(), (std::vector<std::string>{"a", "mine"}));
}

TEST_F(Signatures, KeyFilesAreForTheirOwnersOnly) {
  const mode_t before = umask(0);
  make_key("mine");
  umask(before);
  struct stat status;
  ASSERT_EQ(stat(in_folder("mine").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_THAT(read_bytes(in_folder("mine")), testing::StartsWith("-----BEGIN PRIVATE KEY-----"));
}

TEST_F(Signatures, AKeyIsNotWrittenOverAFile) {
  make_key("mine");
  const std::string kept = read_bytes(in_folder("mine"));
  const Result<PublicKey> again = make_key_file(in_folder("mine"));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message,
              HasSubstr("it is there already, and a key is never written over a file"));
  EXPECT_EQ(read_bytes(in_folder("mine")), kept);
  EXPECT_THAT(make_key_file(in_folder("no/folder")).error().message, HasSubstr("No such file or directory"));
}

TEST_F(Signatures, OtherKeyFilesAreRefused) {
  const std::string path = write_kernels("a", {1}), before = read_bytes(path);
  const auto refused = [&](const std::string& file) { return sign_bundle(path, file).error().message; };
  const auto with_text = [&](const std::string& text) {
    std::ofstream(in_folder("text")) << text;
    chmod(in_folder("text").c_str(), 0600);
    return refused(in_folder("text"));
  };
  EXPECT_THAT(refused(pem("x", EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519"))),
              HasSubstr("its key is not one for Ed25519"));
  EXPECT_THAT(refused(pem("locked", EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), "secret")),
              HasSubstr("it is encrypted; give one without a password"));
  EXPECT_THAT(refused(in_folder("none")),
              HasSubstr("none' cannot be used: it cannot be opened: No such file"));
  EXPECT_THAT(refused(folder()), HasSubstr("it is not a file"));
  const char* const no_key = "it has no private key in PEM";
  EXPECT_THAT(with_text(""), HasSubstr(no_key));
  EXPECT_THAT(with_text("hello\n"), HasSubstr(no_key));
  EXPECT_THAT(with_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), HasSubstr(no_key));
  EXPECT_THAT(with_text(std::string(100'000, 'x')), HasSubstr("it is larger than 16384 bytes"));
  EXPECT_EQ(read_bytes(path), before);
}

}  // namespace
}  // namespace regard
