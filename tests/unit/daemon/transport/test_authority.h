// TestAuthority: an authority for a test, and folders of credentials that it has signed.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "compression/base/check.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/credentials.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& cluster = "contract")
      : directory_(std::make_unique<TemporaryDirectory>()),
        authority_(Authority::Make(
                       cluster, absl::Now() - absl::Hours(24 * 365),
                       [drawn = uint64_t{0}]() mutable { return ++drawn * 0x9e3779b97f4a7c15u; })
                       .value()) {}

  // Returns a folder of fresh credentials, issued `ago` and valid for `life` from that time.
  std::string Folder(const std::string& id, Role role, absl::Duration ago = absl::ZeroDuration(),
                     absl::Duration life = kCertificateLife) {
    const std::string folder = FolderOf(id);
    PosixFiles files;
    const auto made = MakeCredentials(*authority_, role, id, absl::Now() - ago, life);
    CHECK_OK(made.status());
    CHECK_OK(SaveCredentials(files, folder, *made));
    return folder;
  }

  Identity IdentityOf(const std::string& id) const {
    PosixFiles files;
    const auto text = ReadFile(files, CertificateFile(FolderOf(id)), 16384);
    CHECK_OK(text.status());
    return ParseCertificate(*text)->identity;
  }

  Authority& authority() { return *authority_; }
  std::string FolderOf(const std::string& id) const { return directory_->File(id); }

 private:
  std::unique_ptr<TemporaryDirectory> directory_;
  std::unique_ptr<Authority> authority_;
};

}  // namespace atolld
