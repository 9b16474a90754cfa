// Enrolment: the coordinator's calls that are about certificates - Enrol, Renew, what a token leads
// to (Describe), the tokens that operators hand out, and the keys that they see and revoke.
//
// Whatever a call changes is durable before it is answered. Loop thread; signing takes well below a
// millisecond.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/coordinator/throttle.h"
#include "daemon/env/env.h"
#include "daemon/identity/authority.h"
#include "membership/run/run_output.h"
#include "membership/trust/tokens.h"

namespace atolld {

class Enrolment {
 public:
  struct Source {
    std::string address;              // of the coordinator, for tokens
    std::vector<std::string> others;  // of the run's other ones, for tokens too
    std::string model_kind;
    double signatures_per_second = 50;  // for all that join or renew together
    // Makes the update durable, then calls back on the loop; in the order of the calls.
    std::function<void(RunUpdate, Task)> store;
    // The same with keys revoked in the book: whoever shows one is told, cut and refused.
    std::function<void(RunUpdate, const std::string& said, Task)> revoke;
    std::function<std::vector<Identity>()> here;  // of the Sessions that go on
    std::function<bool(const std::string& peer)> evicted;
    std::function<std::string()> run_id;
    std::function<v1::RunDescription()> describe;  // all but the role
  };

  // `authority` may be null: then every call is FAILED_PRECONDITION. It and `book` outlive this.
  Enrolment(Env env, Authority* authority, EnrolmentBook& book, Source source);
  ~Enrolment();  // cancels all calls

  // True if the method is one of these; then the call is taken.
  // Who asks too often is RESOURCE_EXHAUSTED, and none of it is read.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);

 private:
  using Answer = std::function<void(absl::StatusOr<Frame>)>;

  void Purge();
  absl::Status CheckPace(const std::string& method, const std::optional<Identity>& caller);
  void OnRequest(uint64_t id, const std::string& method, const Frame& frame);
  void Handle(const std::string& method, const Frame& frame, const std::optional<Identity>& caller,
              const Answer& answer);
  void DescribeRun(const Identity& caller, const Answer& answer) const;
  void Enrol(const v1::EnrolRequest& request, const Identity& caller, const Answer& answer);
  void Renew(const v1::EnrolRequest& request, const Identity& caller, const Answer& answer);
  void Sign(const v1::EnrolRequest& request, Role role, const std::string& peer, RunUpdate update,
            const Answer& answer);
  void CreateToken(const v1::CreateTokenRequest& request, const Answer& answer);
  absl::StatusOr<v1::CreateTokenResponse> MakeToken(const v1::CreateTokenRequest& request,
                                                    RunUpdate* update);
  void ListTokens(const Answer& answer) const;
  void RevokeToken(const v1::RevokeTokenRequest& request, const Answer& answer);
  void ListIdentities(const v1::ListIdentitiesRequest& request, const Answer& answer);
  void RevokeIdentity(const v1::RevokeIdentityRequest& request, const Identity& caller,
                      const Answer& answer);
  void TakeIssued(Task then);
  v1::IdentityStatus StatusOf(const KeyRecord& key) const;
  v1::TokenStatus StatusOf(const TokenRecord& token) const;

  Env env_;
  Authority* const authority_;
  EnrolmentBook& book_;
  const Source source_;
  CallerThrottle pace_of_one_;
  Throttle pace_;
  uint64_t accepted_ = 0;
  std::map<uint64_t, std::unique_ptr<Call>> calls_;
  CallbackGuard guard_;
};

}  // namespace atolld
