// A peer's own credentials: the key with which the peer signs its contributions, and its
// certificate, which is renewed before it expires.
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

// Returns the key with which a peer signs its contributions. The key is in a file in the peer's
// folder that only the file's owner can read. It is made at the first start, from the environment's
// random numbers. Fails like LoadSigningKey. This call blocks.
absl::StatusOr<SigningKey> OwnSigningKey(Env env, const std::string& dir);

// Has the coordinator renew this peer's certificate, over a call of its own, once less than a third
// of the certificate's life is left.
//
// The peer's key and its open connections are kept; new connections use the new certificate as soon
// as it is on disk. Used on the loop thread. Files are read and written on the pool.
class CertificateRenewal {
 public:
  // `folder` is the folder with the peer's credentials. `coordinator` returns the address of the
  // current leader.
  CertificateRenewal(Env env, std::function<std::string()> coordinator, std::string folder);
  ~CertificateRenewal();

  // Asks for a renewal if one is due. A failure is logged, and the next Check tries again. Called
  // whenever the coordinator is connected. Check then calls itself again from time to time, since a
  // Session may last longer than a certificate.
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
