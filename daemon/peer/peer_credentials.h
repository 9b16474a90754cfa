// A peer's own credentials: the key that it signs its contributions with, and its certificate,
// which is renewed in time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "membership/history/signing_key.h"

namespace atolld {

// The key that a peer signs its contributions with: a file in its folder, its owner's alone. It is
// made at the first start, of the environment's randomness. Blocking. Errors as LoadSigningKey's.
absl::StatusOr<SigningKey> OwnSigningKey(Env env, const std::string& dir);

// Gets a peer's certificate renewed over its own connection to the coordinator,
// once less than a third of its life is left.
//
// The key stays, and so do connections: new ones use the new certificate as soon as it is on disk.
// Loop thread; files are read and written on the pool.
class CertificateRenewal {
 public:
  // `folder`: the peer's credentials. `coordinator`: the address of the one that leads, whenever
  // it is asked for.
  CertificateRenewal(Env env, std::function<std::string()> coordinator, std::string folder);
  ~CertificateRenewal();

  // Looks whether a renewal is due, and asks for it; what fails is logged, and tried at the next
  // Check. For whenever the coordinator is there; it comes again by itself, since a Session may
  // last longer than a certificate.
  void Check();

 private:
  void Ask(const std::string& signing_request);
  void OnAnswer(const Frame& frame);
  void Over();

  Env env_;
  const std::function<std::string()> coordinator_;
  const std::string folder_;
  bool busy_ = false;
  Executor::TimerId next_ = 0;
  std::unique_ptr<Call> call_;
  CallbackGuard guard_;
};

}  // namespace atolld
