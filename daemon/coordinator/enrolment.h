// Enrolment: serves the coordinator's calls that concern certificates: Enrol, Renew, Describe
// (which describes the run of a token), and the calls with which operators make, list and revoke
// tokens and list and revoke keys.
//
// The changes of a call are durable before the call is answered. Used on the loop thread; signing
// takes well below a millisecond.
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
    std::string address;  // the coordinator's address, written into tokens
    // Addresses of the run's other coordinators, written into tokens.
    std::vector<std::string> others;
    std::string model_kind;
    double signatures_per_second = 50;  // the rate for all callers together that join or renew
    // Reports whether an update could be stored now (see Outbox::Try). It is called before a token
    // is made and before a token or a key is revoked.
    std::function<void(std::function<void(absl::Status)>)> try_store;
    // Makes the update durable, then calls back on the loop. Updates are stored in the order of the
    // calls.
    std::function<void(RunUpdate, Task)> store;
    // Does the same for an update that revokes keys. Callers that have shown a revoked key then get
    // an error, are cut off, and are refused from then on. `said` is the line about it in the run's
    // events.
    std::function<void(RunUpdate, const std::string& said, Task)> revoke;
    std::function<std::vector<Identity>()> here;  // the identities of the peers with a live Session
    std::function<bool(const std::string& peer)> evicted;
    std::function<std::string()> run_id;
    std::function<v1::RunDescription()> describe;  // the whole description except the role
  };

  // If `authority` is null, every call fails with FAILED_PRECONDITION. `authority` and `book` must
  // outlive this object.
  Enrolment(Env env, Authority* authority, EnrolmentBook& book, Source source);
  ~Enrolment();  // cancels all calls

  // Takes the call and returns true if the method is one of those named above. A caller that asks
  // too often gets RESOURCE_EXHAUSTED, and its request is not read.
  bool Accept(const std::string& method, std::unique_ptr<Call>* call);

 private:
  using Answer = std::function<void(absl::StatusOr<Frame>)>;

  void Purge();
  absl::Status CheckPace(const std::string& method, const std::optional<Identity>& caller);
  void OnRequest(uint64_t id, const std::string& method, const Frame& frame);
  // Runs `then` if the store takes updates now; otherwise answers with the store's error.
  void IfStored(const Answer& answer, Task then);
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

// Sets never_come: the peers that have a valid identity, have never connected to this coordinator
// with it, and are not among the status's peers.
void ShowNeverCome(const EnrolmentBook& book, absl::Time now, v1::RunStatus* status);

// Returns a text such as "; p3 has an identity and has not come: its log says why" that names the
// peers that have never connected to this coordinator with their valid identities, or "" if all
// have. It is appended to the reason why a run has not begun.
std::string NotHereYet(const EnrolmentBook& book, absl::Time now);

}  // namespace atolld
