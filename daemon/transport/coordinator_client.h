// The blocking client through which the command line, and a machine that joins a run, call a
// coordinator.
//
// The message of every error is one line for people: either "no coordinator answers at ADDRESS:
// WHY" (UNAVAILABLE), where WHY is worded as in connection_failure.h, or the coordinator's own
// message. If a run has several coordinators, their addresses are tried in turn until the leader
// answers, because another coordinator needs a few seconds to take over. Its calls block. Used by
// one thread, except for Cancel.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

struct CoordinatorAccess {
  std::string address;  // "host:port" or "unix:/path"; several coordinators are separated by commas
  // The folder of the administrator's credentials; plain text is used if it is empty.
  std::string identity;
};

class AdminClient {
 public:
  // Connects at the first call. Each call waits for its answer for at most `patience`.
  explicit AdminClient(CoordinatorAccess access, absl::Duration patience = absl::Seconds(10));
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  // Returns the run's status with at most `limit` rounds (and at most 1000) from `first_version`
  // on. If `first_version` is 0, returns the newest rounds.
  absl::StatusOr<v1::RunStatus> ShowRun(uint64_t first_version, uint32_t limit);

  // Calls `on_status` for each status. Returns OK when `on_status` has returned false or the
  // coordinator has ended the stream, which it does at the end of the run. Fails with UNAVAILABLE
  // if the link breaks or if the first status does not arrive within the patience.
  absl::Status WatchRun(absl::Duration interval,
                        const std::function<bool(const v1::RunStatus&)>& on_status);

  // Makes the WatchRun under way, and every later one, fail with CANCELLED. May be called from any
  // thread.
  void Cancel();

  // These calls change the run. Each returns when the change is durable. See admin.proto.
  absl::StatusOr<v1::RunStatus> PauseRun(const std::string& reason);
  absl::StatusOr<v1::RunStatus> ResumeRun();
  absl::StatusOr<v1::RunStatus> StopRun(const std::string& reason);
  absl::StatusOr<v1::PeerStatus> DrainPeer(const std::string& peer, const std::string& reason);
  absl::StatusOr<v1::PeerStatus> EvictPeer(const std::string& peer, const std::string& reason,
                                           bool undo);

  // Returns the account of every peer that has ever contributed. It fetches all pages of the list.
  absl::StatusOr<std::vector<v1::Account>> ListAccounts();
  absl::StatusOr<v1::Receipt> IssueReceipt(const std::string& peer);

  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens();
  absl::StatusOr<v1::TokenStatus> RevokeToken(const std::string& serial);

  // Returns all identities. It fetches all pages of the list.
  absl::StatusOr<std::vector<v1::IdentityStatus>> ListIdentities();
  absl::StatusOr<v1::RevokeIdentityResponse> RevokeIdentity(const std::string& identity,
                                                            const std::string& reason);

  // Returns at most `limit` headers (and at most 1000) from `first_version` on. If it is 0, they
  // start with the oldest header.
  absl::StatusOr<v1::ListHeadersResponse> ListHeaders(uint64_t first_version, uint32_t limit);

 private:
  struct Connection;

  const std::unique_ptr<Connection> connection_;
};

// -----------------------------------------------------------------------------------------------

// How long to keep asking a coordinator that does not answer.
struct Waiting {
  absl::Duration patience;
  // Called within ten seconds with a line that says what the caller waits for and why, and again
  // when the reason changes. May be null.
  std::function<void(const std::string& line)> say = nullptr;
};

// Enrols with the token's credentials (the folder access.identity, of role join). The answer holds
// the certificate for the key of `signing_request` (DER). If the coordinator cannot be reached or
// its answer was lost, asks again for as long as `waiting` allows; the coordinator accepts a
// repeated request for the same key. Fails with UNAVAILABLE if no coordinator answered; immediately
// with FAILED_PRECONDITION if the server is not this run's coordinator; with PERMISSION_DENIED and
// the coordinator's message if something is wrong with the token.
absl::StatusOr<v1::EnrolResponse> Enrol(const CoordinatorAccess& access,
                                        const std::string& signing_request, const Waiting& waiting);

// Returns a description of the run that the token is for, without using up the token. Fails with
// the errors of Enrol.
absl::StatusOr<v1::RunDescription> DescribeRun(const CoordinatorAccess& access,
                                               const Waiting& waiting);

// The speed of the line to the coordinator, in bytes of messages a second.
struct LineSpeed {
  double up = 0;
  double down = 0;
};

// Measures the line in about 3 seconds: sends and fetches a few bytes, then more and more until the
// line has been busy for half a second in each direction. Fails with UNAVAILABLE if no coordinator
// answers, with RESOURCE_EXHAUSTED if another machine is still measuring after `patience`, with
// DEADLINE_EXCEEDED if the line is too slow to measure, with UNIMPLEMENTED if the coordinator's
// release cannot measure, and with PERMISSION_DENIED if something is wrong with the token.
absl::StatusOr<LineSpeed> MeasureLine(const CoordinatorAccess& access, absl::Duration patience);

}  // namespace atolld
