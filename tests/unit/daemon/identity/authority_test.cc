// Would break: certificates that name the wrong party, live for ever, or are signed for whoever
// asks with somebody else's key.
#include "daemon/identity/authority.h"

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/env/posix_files.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "daemon/identity/openssl.h"
#include "gmock/gmock.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1800000000);

Authority::Random Numbers(uint64_t first = 7) {
  return [next = first]() mutable { return next *= 6364136223846793005u; };
}

std::unique_ptr<Authority> MakeAuthority(uint64_t seed = 7) {
  return Authority::Make("run-1", kNow, Numbers(seed)).value();
}

std::string Request() { return PrivateKey::Generate()->SigningRequest().value(); }

TEST(Authority, IssuesWhatItSays) {
  const auto authority = MakeAuthority();
  const PrivateKey key = PrivateKey::Generate().value();
  const auto pem = authority->Issue(*key.SigningRequest(), Role::kPeer, "peer-3", kNow);
  ASSERT_TRUE(pem.ok()) << pem.status();
  const CertificateInfo info = ParseCertificate(*pem).value();
  EXPECT_EQ("run-1", info.identity.cluster);
  EXPECT_EQ(Role::kPeer, info.identity.role);
  EXPECT_EQ("peer-3", info.identity.id);
  EXPECT_EQ(32u, info.identity.serial.size()) << info.identity.serial;
  EXPECT_EQ(key.Digest().value(), info.key_digest);
  EXPECT_EQ(kNow - absl::Hours(1), info.not_before);
  EXPECT_EQ(kNow + absl::Hours(24 * 90), info.not_after);
  EXPECT_TRUE(CheckSignedBy(*pem, authority->certificate()).ok());
  EXPECT_FALSE(CheckSignedBy(*pem, MakeAuthority(9)->certificate()).ok());
  const auto second = authority->Issue(*key.SigningRequest(), Role::kPeer, "peer-3", kNow);
  EXPECT_NE(info.identity.serial, ParseCertificate(*second)->identity.serial);
}

TEST(Authority, ClientsCannotServeAndServersAreTold) {
  const auto authority = MakeAuthority();
  const struct {
    Role role;
    const char* name;
  } cases[] = {{Role::kJoin, ""},
               {Role::kAdmin, ""},
               {Role::kPeer, "peer.atoll.internal"},
               {Role::kAggregator, "peer.atoll.internal"},
               {Role::kCoordinator, "coordinator.atoll.internal"}};
  for (const auto& one : cases) {
    const std::string pem = authority->Issue(Request(), one.role, "a", kNow).value();
    const SslCertificate certificate = ReadPemCertificate(pem).value();
    const bool serves = X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0) == 1;
    EXPECT_EQ(*one.name != '\0', serves) << RoleName(one.role);
    EXPECT_EQ(1, X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0));
    EXPECT_EQ(one.name, ServerName(one.role));
    if (serves) {
      EXPECT_EQ(1, X509_check_host(certificate.get(), one.name, 0, 0, nullptr));
    }
    EXPECT_EQ(0, X509_check_ca(certificate.get())) << "it could sign others";
  }
}

TEST(Authority, TimesAreChecked) {
  const auto authority = MakeAuthority();
  const CertificateInfo info =
      ParseCertificate(*authority->Issue(Request(), Role::kPeer, "p", kNow, absl::Hours(30)))
          .value();
  EXPECT_TRUE(CheckValidAt(info, kNow).ok());
  const absl::Status late = CheckValidAt(info, kNow + absl::Hours(31));
  EXPECT_TRUE(absl::IsPermissionDenied(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr("peer p has expired"));
  EXPECT_TRUE(absl::IsPermissionDenied(CheckValidAt(info, kNow - absl::Hours(2))));
  EXPECT_FALSE(RenewalDue(info, kNow + absl::Hours(19)));
  EXPECT_TRUE(RenewalDue(info, kNow + absl::Hours(20)));
}

TEST(Authority, RefusesWhatIsNoRequest) {
  const auto authority = MakeAuthority();
  const std::string good = Request();
  ASSERT_TRUE(authority->Issue(good, Role::kPeer, "p", kNow).ok());
  std::string forged = good;
  forged.back() = static_cast<char>(forged.back() ^ 1);  // of the signature
  EVP_PKEY* const rsa = EVP_RSA_gen(2048);
  const SslRequest weak(X509_REQ_new());
  X509_REQ_set_pubkey(weak.get(), rsa);
  X509_REQ_sign(weak.get(), rsa, EVP_sha256());
  EVP_PKEY_free(rsa);
  unsigned char* bytes = nullptr;
  const int size = i2d_X509_REQ(weak.get(), &bytes);
  const std::string other_kind(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  for (const std::string& bad :
       {std::string(), std::string("nonsense"), good + "x", good.substr(0, good.size() - 1), forged,
        other_kind, std::string(5000, 'x')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(authority->Issue(bad, Role::kPeer, "p", kNow).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(SigningRequestKey(bad).status()));
  }
  // Every single-bit change either leaves the request as good as it was or is refused; none does
  // worse. The key that it is for is what the signature covers.
  const std::string key = SigningRequestKey(good).value();
  for (size_t at = 0; at < good.size(); ++at) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    const auto digest = SigningRequestKey(changed);
    if (digest.ok()) {
      EXPECT_EQ(key, *digest) << at;
    }
  }
}

TEST(Authority, IsFoundAgainAndGuarded) {
  const TemporaryDirectory directory;
  PosixFiles files;
  const std::string folder = directory.File("authority");
  const std::string key = folder + "/key.pem";
  const auto made = Authority::Open(files, folder, "run-1", kNow, Numbers());
  ASSERT_TRUE(made.ok()) << made.status();
  struct stat about = {};
  ASSERT_EQ(0, stat(key.c_str(), &about));
  EXPECT_EQ(0600u, about.st_mode & 0777u);
  const auto again = Authority::Open(files, folder, "another-name", kNow, Numbers());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*made)->certificate(), (*again)->certificate());
  EXPECT_EQ("run-1", (*again)->cluster());
  const std::string pem = (*again)->Issue(Request(), Role::kPeer, "p", kNow).value();
  EXPECT_TRUE(CheckSignedBy(pem, (*made)->certificate()).ok());

  const auto late =
      Authority::Open(files, folder, "run-1", kNow + absl::Hours(24 * 4000), Numbers());
  EXPECT_TRUE(absl::IsPermissionDenied(late.status())) << late.status();
  ASSERT_EQ(0, chmod(key.c_str(), 0640));
  const auto readable = Authority::Open(files, folder, "run-1", kNow, Numbers());
  EXPECT_TRUE(absl::IsFailedPrecondition(readable.status()));
  EXPECT_THAT(std::string(readable.status().message()), HasSubstr("chmod 600"));
  ASSERT_EQ(0, chmod(key.c_str(), 0600));

  const std::string other = PrivateKey::Generate()->ToPem().value();
  ASSERT_TRUE(WriteSecretDurably(
                  files, key,
                  absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(other.data()), other.size()))
                  .ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(Authority::Open(files, folder, "run-1", kNow, Numbers()).status()));
}

// `atoll identity issue` beside a coordinator that starts: both must go on with one authority.
TEST(Cluster, OfThoseThatBeginAtOnceAllGetTheSame) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    const TemporaryDirectory directory;
    std::vector<std::string> certificates(6);
    std::vector<std::thread> starters;
    for (size_t i = 0; i < certificates.size(); ++i) {
      starters.emplace_back([&, i] {
        PosixFiles files;
        const auto authority =
            OpenCluster(files, directory.path(), "run-1", kNow, Numbers(2 * i + 3));
        certificates[i] =
            authority.ok() ? (*authority)->certificate() : authority.status().ToString();
      });
    }
    for (std::thread& starter : starters) starter.join();
    PosixFiles files;
    const auto opened = OpenCluster(files, directory.path(), "run-1", kNow, Numbers());
    ASSERT_TRUE(opened.ok()) << opened.status();
    for (const std::string& certificate : certificates) {
      EXPECT_EQ((*opened)->certificate(), certificate);
    }
    for (const char* folder : {kIdentityFolder, kAdminFolder}) {
      Credentials credentials;
      const auto info = LoadCredentials(files, directory.File(folder), kNow, &credentials);
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_EQ((*opened)->certificate(), credentials.authority);
    }
    EXPECT_EQ(3u, files.List(directory.path())->size()) << "what the others made is gone";
  }
}

// What was cut off half way is not taken for whole.
TEST(Authority, AKeyAloneIsRefused) {
  const TemporaryDirectory directory;
  PosixFiles files;
  const std::string folder = directory.File("authority");
  ASSERT_TRUE(Authority::Open(files, folder, "run-1", kNow, Numbers()).ok());
  ASSERT_TRUE(files.Remove(folder + "/certificate.pem").ok());
  const auto opened = Authority::Open(files, folder, "run-1", kNow, Numbers());
  EXPECT_FALSE(opened.ok());
  EXPECT_TRUE(files.Exists(folder + "/key.pem"));
}

}  // namespace
}  // namespace atolld
