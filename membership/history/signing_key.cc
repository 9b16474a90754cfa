#include "membership/history/signing_key.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstdlib>
#include <optional>
#include <unordered_set>

#include "absl/strings/str_cat.h"

namespace atolld {
namespace {

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeMemory {
  void operator()(BIO* memory) const { BIO_free_all(memory); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;
using Memory = std::unique_ptr<BIO, FreeMemory>;

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

absl::Status Failed(absl::string_view what) {
  char reason[256];
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  ERR_clear_error();
  return absl::InternalError(absl::StrCat(what, ": ", reason));
}

std::string Signed(absl::string_view domain, absl::string_view message) {
  return absl::StrCat(domain, absl::string_view("\0", 1), message);
}

// The most signatures that are remembered, of about 200 bytes each.
constexpr size_t kMostRemembered = 65536;

// If nullopt, every signature is checked each time.
std::optional<std::unordered_set<std::string>>& Remembered() {
  static std::optional<std::unordered_set<std::string>> remembered;
  return remembered;
}

bool Verify(absl::string_view public_key, const std::string& bytes, absl::string_view signature) {
  const std::unique_ptr<EVP_PKEY, FreeKey> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(public_key), public_key.size()));
  const Context context(EVP_MD_CTX_new());
  const bool right =
      key != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(signature), signature.size(), Bytes(bytes),
                       bytes.size()) == 1;
  ERR_clear_error();
  return right;
}

// Refuses a password. Without this callback OpenSSL would ask for one at the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

}  // namespace

absl::StatusOr<SigningKey> SigningKey::Own(EVP_PKEY* key) {
  std::shared_ptr<EVP_PKEY> owned(key, FreeKey());
  std::string bytes(kPublicKeyBytes, '\0');
  size_t size = bytes.size();
  if (EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(bytes.data()), &size) !=
          1 ||
      size != kPublicKeyBytes) {
    return Failed("the public half of a signing key");
  }
  return SigningKey(std::move(owned), std::move(bytes));
}

absl::StatusOr<SigningKey> SigningKey::Generate() {
  EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  if (key == nullptr) return Failed("making a signing key");
  return Own(key);
}

absl::StatusOr<SigningKey> SigningKey::FromSeed(absl::string_view seed) {
  if (seed.size() != 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("a signing key is made of 32 bytes, not ", seed.size()));
  }
  EVP_PKEY* const key =
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Bytes(seed), seed.size());
  if (key == nullptr) return Failed("making a signing key of its seed");
  return Own(key);
}

absl::StatusOr<SigningKey> SigningKey::FromPem(absl::string_view pem) {
  const Memory reader(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassword, nullptr);
  ERR_clear_error();
  if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
    EVP_PKEY_free(key);
    return absl::InvalidArgumentError("it is not an Ed25519 key in PEM");
  }
  return Own(key);
}

absl::StatusOr<std::string> SigningKey::ToPem() const {
  const Memory memory(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(memory.get(), key_.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1) {
    return Failed("writing a signing key");
  }
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

std::string SigningKey::Sign(absl::string_view domain, absl::string_view message) const {
  const std::string bytes = Signed(domain, message);
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  const Context context(EVP_MD_CTX_new());
  const bool made =
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     Bytes(bytes), bytes.size()) == 1 &&
      size == kSignatureBytes;
  if (!made) std::abort();  // the key is valid, so only memory can be lacking
  return signature;
}

bool VerifySignature(absl::string_view public_key, absl::string_view domain,
                     absl::string_view message, absl::string_view signature) {
  if (public_key.size() != kPublicKeyBytes || signature.size() != kSignatureBytes) return false;
  const std::string bytes = Signed(domain, message);
  auto& remembered = Remembered();
  if (!remembered) return Verify(public_key, bytes, signature);
  // The first two have fixed sizes, so no other three values make the same text.
  std::string what = absl::StrCat(public_key, signature, bytes);
  if (remembered->count(what) != 0) return true;
  if (!Verify(public_key, bytes, signature)) return false;
  if (remembered->size() >= kMostRemembered) remembered->clear();
  remembered->insert(std::move(what));
  return true;
}

void RememberRightSignatures() {
  if (!Remembered()) Remembered().emplace();
}

}  // namespace atolld
