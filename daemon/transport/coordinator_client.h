// What the command line, and a machine that joins, ask of a coordinator. Blocking.
//
// Every error is one line for people: UNAVAILABLE "no coordinator answers at ADDRESS: WHY", where
// WHY is as connection_failure.h has it, or what the coordinator said. Where a run has several
// coordinators, the next address is asked until the one that leads answers, for some seconds, in
// which another one takes over. An AdminClient is one thread's at a time, but for Cancel.
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
  std::string address;   // "host:port" or "unix:/path"; of several coordinators all, with commas
  std::string identity;  // folder of the administrator's credentials; empty: plain text
};

class AdminClient {
 public:
  // Connects at the first question; each gets `patience` for its answer.
  explicit AdminClient(CoordinatorAccess access, absl::Duration patience = absl::Seconds(10));
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  // With at most `limit` rounds (1000 at a time) from `first_version` on; 0: the newest.
  absl::StatusOr<v1::RunStatus> ShowRun(uint64_t first_version, uint32_t limit);

  // Calls `on_status` for each status until it returns false (then OK), the coordinator ends the
  // stream (OK) or the link breaks (UNAVAILABLE). Lasts as long as the run does. The first status
  // must come within the patience.
  absl::Status WatchRun(absl::Duration interval,
                        const std::function<bool(const v1::RunStatus&)>& on_status);

  // Ends a WatchRun that goes on, and every later one, with CANCELLED. Any thread.
  void Cancel();

  // What changes the run; answered when it is durable. See admin.proto.
  absl::StatusOr<v1::RunStatus> PauseRun(const std::string& reason);
  absl::StatusOr<v1::RunStatus> ResumeRun();
  absl::StatusOr<v1::RunStatus> StopRun(const std::string& reason);
  absl::StatusOr<v1::PeerStatus> DrainPeer(const std::string& peer, const std::string& reason);
  absl::StatusOr<v1::PeerStatus> EvictPeer(const std::string& peer, const std::string& reason,
                                           bool undo);

  // What each peer that ever contributed has given: all of them, page by page.
  absl::StatusOr<std::vector<v1::Account>> ListAccounts();
  absl::StatusOr<v1::Receipt> IssueReceipt(const std::string& peer);

  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens();
  absl::StatusOr<v1::TokenStatus> RevokeToken(const std::string& serial);

  // All of them, page by page.
  absl::StatusOr<std::vector<v1::IdentityStatus>> ListIdentities();
  absl::StatusOr<v1::RevokeIdentityResponse> RevokeIdentity(const std::string& identity,
                                                            const std::string& reason);

  // At most `limit` headers (1000 at a time) from `first_version` on; 0: from the oldest.
  absl::StatusOr<v1::ListHeadersResponse> ListHeaders(uint64_t first_version, uint32_t limit);

 private:
  struct Connection;

  const CoordinatorAccess access_;
  const absl::Duration patience_;
  const std::unique_ptr<Connection> connection_;
};

// -----------------------------------------------------------------------------------------------

// Enrols with the token's credentials (access.identity, role join): the answer holds the
// certificate for the key of `signing_request` (DER). A coordinator that is away, or whose answer
// was lost, is asked again for `patience`: the same key may always ask again. UNAVAILABLE: none
// answered. FAILED_PRECONDITION, at once: what answers is not this run's coordinator.
// PERMISSION_DENIED: what the coordinator says is wrong with the token.
absl::StatusOr<v1::EnrolResponse> Enrol(const CoordinatorAccess& access,
                                        const std::string& signing_request,
                                        absl::Duration patience);

// What the token leads to, which stays as it is. Errors as Enrol.
absl::StatusOr<v1::RunDescription> DescribeRun(const CoordinatorAccess& access,
                                               absl::Duration patience);

// How fast the line to the coordinator is, in bytes of messages a second.
struct LineSpeed {
  double up = 0;
  double down = 0;
};

// Sends and fetches a few bytes, then more and more until the line has been busy for half a second
// each way, some 3 seconds in all. UNAVAILABLE: nobody answers; RESOURCE_EXHAUSTED: another machine
// measures, also after `patience`; DEADLINE_EXCEEDED: the line is too slow to tell;
// UNIMPLEMENTED: an older coordinator; PERMISSION_DENIED: as Enrol.
absl::StatusOr<LineSpeed> MeasureLine(const CoordinatorAccess& access, absl::Duration patience);

}  // namespace atolld
