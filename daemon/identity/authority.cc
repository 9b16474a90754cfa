#include "daemon/identity/authority.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/identity/openssl.h"

namespace atolld {
namespace {

constexpr absl::Duration kAuthorityLife = absl::Hours(24 * 3653);
constexpr size_t kLargestRequest = 4096;
constexpr char kCertificateFile[] = "/certificate.pem";
constexpr char kKeyFile[] = "/key.pem";
constexpr char kIssuedFolder[] = "/issued";

absl::Status AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const SslExtension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return SslError(absl::StrCat("certificate extension ", value));
  }
  return absl::OkStatus();
}

struct Contents {
  std::string name;
  absl::Time from;
  absl::Time until;
  std::vector<std::pair<int, std::string>> extensions;
};

// 127 random bits: never negative, and no two certificates share them.
absl::Status SetSerial(X509* certificate, const Authority::Random& random) {
  unsigned char bytes[16];
  for (size_t i = 0; i < sizeof bytes; i += 8) {
    const uint64_t drawn = random();
    for (size_t k = 0; k < 8; ++k) bytes[i + k] = static_cast<unsigned char>(drawn >> (8 * k));
  }
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x3f) | 0x40);
  BIGNUM* const number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set ? absl::OkStatus() : SslError("numbering a certificate");
}

// Signs with `issuer_key` in the name of `issuer`; if that is null, the certificate is self-signed.
absl::StatusOr<std::string> MakeCertificate(EVP_PKEY* key, const Contents& contents, X509* issuer,
                                            EVP_PKEY* issuer_key, const Authority::Random& random) {
  const SslCertificate certificate(X509_new());
  X509* const x = certificate.get();
  if (x == nullptr || X509_set_version(x, X509_VERSION_3) != 1) return SslError("a certificate");
  RETURN_IF_ERROR(SetSerial(x, random));
  if (ASN1_TIME_set(X509_getm_notBefore(x), absl::ToTimeT(contents.from)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(x), absl::ToTimeT(contents.until)) == nullptr ||
      X509_set_pubkey(x, key) != 1 ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(contents.name.c_str()), -1,
                                 -1, 0) != 1) {
    return SslError("filling a certificate");
  }
  X509* const by = issuer == nullptr ? x : issuer;
  if (X509_set_issuer_name(x, X509_get_subject_name(by)) != 1) return SslError("naming an issuer");
  for (const auto& [kind, value] : contents.extensions) {
    RETURN_IF_ERROR(AddExtension(x, by, kind, value));
  }
  if (X509_sign(x, issuer_key, EVP_sha256()) == 0) return SslError("signing a certificate");
  const SslMemory memory(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(memory.get(), x) != 1) return SslError("writing a certificate");
  return SslText(memory);
}

// Checks that the request is complete, and that its sender has the key.
absl::StatusOr<SslRequest> ParseRequest(absl::string_view der) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "a signing request is PKCS #10 in DER, of at most 4 KiB, signed with its own P-256 key");
  if (der.size() > kLargestRequest) return wrong;
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  const auto* const begin = at;
  SslRequest request(d2i_X509_REQ(nullptr, &at, static_cast<long>(der.size())));
  EVP_PKEY* const key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  char group[32] = "";
  const bool sound = key != nullptr && static_cast<size_t>(at - begin) == der.size() &&
                     EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
                     EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
                     absl::string_view(group) == "prime256v1" &&
                     X509_REQ_verify(request.get(), key) == 1;
  ERR_clear_error();
  if (!sound) return wrong;
  return request;
}

template <typename Take>
void ForEachIssued(Files& files, const std::string& authority, const Take& take) {
  const std::string folder = authority + kIssuedFolder;
  const absl::StatusOr<std::vector<std::string>> names = files.List(folder);
  if (!names.ok()) return;  // nothing was ever noted
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<std::string> pem = ReadFile(files, path, kLargestPemFile);
    if (!pem.ok()) continue;
    absl::StatusOr<CertificateInfo> info = ParseCertificate(*pem);
    if (info.ok()) take(path, *std::move(info));
  }
}

// Removes a folder with its files; it must hold no folders.
absl::Status RemoveFolder(Files& files, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(files.Remove(absl::StrCat(folder, "/", name)));
  }
  return files.Remove(folder);
}

}  // namespace

absl::StatusOr<std::string> SigningRequestKey(absl::string_view request) {
  ASSIGN_OR_RETURN(const SslRequest parsed, ParseRequest(request));
  return DigestOfKey(X509_REQ_get0_pubkey(parsed.get()));
}

Authority::Authority(std::string cluster, std::string certificate, PrivateKey key, Random random,
                     std::string folder)
    : cluster_(std::move(cluster)),
      certificate_(std::move(certificate)),
      key_(std::move(key)),
      random_(std::move(random)),
      folder_(std::move(folder)) {}

absl::StatusOr<std::unique_ptr<Authority>> Authority::Make(const std::string& cluster,
                                                           absl::Time now, Random random) {
  ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::Generate());
  const Contents contents = {
      absl::StrCat("Atoll ", cluster),
      now - kLateClocks,
      now + kAuthorityLife,
      {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
       {NID_key_usage, "critical,keyCertSign"},
       {NID_subject_key_identifier, "hash"},
       // Its own identity serves to find the cluster's name again; its role may call nothing.
       {NID_subject_alt_name,
        absl::StrCat("URI:", IdentityUri({cluster, Role::kJoin, "authority", ""}))}}};
  ASSIGN_OR_RETURN(std::string certificate,
                   MakeCertificate(key.get(), contents, nullptr, key.get(), random));
  return std::unique_ptr<Authority>(
      new Authority(cluster, std::move(certificate), std::move(key), std::move(random), ""));
}

absl::StatusOr<std::unique_ptr<Authority>> Authority::Open(Files& files, const std::string& folder,
                                                           const std::string& cluster,
                                                           absl::Time now, Random random) {
  const std::string certificate_path = folder + kCertificateFile;
  const std::string key_path = folder + kKeyFile;
  if (!files.Exists(certificate_path)) {
    ASSIGN_OR_RETURN(std::unique_ptr<Authority> made, Make(cluster, now, random));
    const auto fill = [&](const std::string& staging) { return made->Save(files, staging); };
    ASSIGN_OR_RETURN(const bool first,
                     PlaceFolder(files, folder, certificate_path, random(), fill));
    // As everybody later finds it: it is in a folder now.
    if (first) return Open(files, folder, cluster, now, std::move(random));
  }
  ASSIGN_OR_RETURN(std::string certificate, ReadFile(files, certificate_path, kLargestPemFile));
  absl::StatusOr<CertificateInfo> info = ParseCertificate(certificate);
  if (!info.ok()) return Annotate(info.status(), certificate_path);
  RETURN_IF_ERROR(Annotate(CheckValidAt(*info, now), certificate_path));
  ASSIGN_OR_RETURN(const bool hidden, files.IsPrivate(key_path));
  if (!hidden) {
    return absl::FailedPreconditionError(absl::StrCat(
        key_path, ": others may read the authority's key; make it its owner's alone (chmod 600)"));
  }
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(files, key_path, kLargestPemFile));
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(pem);
  if (!key.ok()) return Annotate(key.status(), key_path);
  ASSIGN_OR_RETURN(const std::string digest, key->Digest());
  if (digest != info->key_digest) {
    return absl::InvalidArgumentError(
        absl::StrCat(key_path, ": is not the key of ", certificate_path));
  }
  return std::unique_ptr<Authority>(new Authority(info->identity.cluster, std::move(certificate),
                                                  *std::move(key), std::move(random), folder));
}

absl::Status Authority::Save(Files& files, const std::string& folder) const {
  ASSIGN_OR_RETURN(const std::string key, key_.ToPem());
  RETURN_IF_ERROR(WriteSecretDurably(files, folder + kKeyFile, BytesOf(key)));
  return WriteFileDurably(files, folder + kCertificateFile, BytesOf(certificate_));
}

absl::StatusOr<std::string> Authority::Issue(absl::string_view request, Role role,
                                             const std::string& id, absl::Time now,
                                             absl::Duration life) {
  ASSIGN_OR_RETURN(const SslRequest parsed, ParseRequest(request));
  ASSIGN_OR_RETURN(const SslCertificate issuer, ReadPemCertificate(certificate_));
  const std::string server = ServerName(role);
  const Identity identity{cluster_, role, id, ""};
  std::string names = absl::StrCat("URI:", IdentityUri(identity));
  if (!server.empty()) absl::StrAppend(&names, ",DNS:", server);
  const Contents contents = {
      id,
      now - kLateClocks,
      now + life,
      {{NID_basic_constraints, "critical,CA:FALSE"},
       {NID_key_usage, "critical,digitalSignature"},
       {NID_ext_key_usage, server.empty() ? "clientAuth" : "serverAuth,clientAuth"},
       {NID_subject_alt_name, names}}};
  return MakeCertificate(X509_REQ_get0_pubkey(parsed.get()), contents, issuer.get(), key_.get(),
                         random_);
}

absl::Status NoteIssued(Files& files, const Authority& authority, const std::string& certificate) {
  if (authority.folder().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const CertificateInfo info, ParseCertificate(certificate));
  const std::string folder = authority.folder() + kIssuedFolder;
  RETURN_IF_ERROR(files.MakeDirectories(folder));
  return WriteFileDurably(files, absl::StrCat(folder, "/", info.identity.serial, ".pem"),
                          BytesOf(certificate));
}

std::vector<CertificateInfo> ReadIssued(Files& files, const std::string& folder) {
  std::vector<CertificateInfo> issued;
  ForEachIssued(files, folder, [&](const std::string&, CertificateInfo info) {
    issued.push_back(std::move(info));
  });
  return issued;
}

void ForgetIssued(Files& files, const std::string& folder, absl::Time now) {
  ForEachIssued(files, folder, [&](const std::string& path, const CertificateInfo& info) {
    if (now > info.not_after) files.Remove(path).IgnoreError();
  });
}

absl::StatusOr<bool> PlaceFolder(Files& files, const std::string& folder,
                                 const std::string& witness, uint64_t random,
                                 const std::function<absl::Status(const std::string&)>& fill) {
  const std::string staging = absl::StrCat(folder, ".new-", absl::Hex(random, absl::kZeroPad16));
  RETURN_IF_ERROR(files.MakeDirectories(staging));
  absl::Status placed = fill(staging);
  if (placed.ok()) placed = files.Rename(staging, folder);
  if (placed.ok()) {
    RETURN_IF_ERROR(files.SyncDirectory(folder.substr(0, folder.rfind('/'))));
    return true;
  }
  RemoveFolder(files, staging).IgnoreError();  // the reason is the one to tell
  if (files.Exists(witness)) return false;
  return placed;
}

}  // namespace atolld
