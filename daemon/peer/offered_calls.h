// Calls by which donors that cannot be dialled give their data to other peers: the donors dial the
// peers that can be dialled, and wait for requests on these calls.
//
// Giver is the donor's end of these calls, and OfferedCalls the end of the peers that fetch. Used
// on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {

inline constexpr char kGiveEntriesMethod[] = "/atolld.v1.Replica/GiveEntries";
inline constexpr char kGiveSnapshotMethod[] = "/atolld.v1.Replica/GiveSnapshot";

// Returns the address at which the peers that fetch dial this donor: "offered:PEER".
std::string OfferedAddress(absl::string_view peer);

// The calls over which donors that cannot be dialled give their data.
//
// Such a donor dials (GiveEntries, GiveSnapshot), names itself, and waits for requests. For the
// code that fetches, this class is a Transport: a dial of "offered:PEER" returns a waiting call of
// that peer as if the peer had been dialled, and every other address is dialled by the transport
// below. The data that comes over such a call is checked like any donor's data.
class OfferedCalls final : public Transport {
 public:
  // `env` must outlive this object. Calls `on_change` when donors() has changed.
  OfferedCalls(Env env, std::function<void()> on_change);
  ~OfferedCalls() override;

  // Accepts a call of GiveEntries or GiveSnapshot. For each peer and method only the newest call
  // waits. A call is refused with RESOURCE_EXHAUSTED if there are more than 128 calls, or more than
  // 4 of one caller, with INVALID_ARGUMENT if it does not name its peer, and with PERMISSION_DENIED
  // if it names another peer than its caller.
  void Accept(const std::string& method, std::unique_ptr<Call> call);

  // Returns the peers that have a waiting call.
  std::set<std::string> donors() const;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  // The call's on_closed gives NOT_FOUND if no call of that peer waits, or if the peer has ended it
  // without a reason.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  using Key = std::pair<std::string, std::string>;  // The peer, and the method of the fetch.

  int WaitOf(const std::optional<Identity>& caller) const;
  void OnOpened(uint64_t number, const std::string& method, const Frame& frame);
  void Drop(uint64_t number);
  void Changed();

  const Env env_;
  const std::function<void()> on_change_;

  uint64_t accepted_ = 0;
  // The calls that wait, and those that have not named a peer yet.
  std::map<uint64_t, std::unique_ptr<StartedCall>> calls_;
  std::map<Key, uint64_t> waiting_;
  Refusals refusals_;
  CallbackGuard guard_;
};

// Returns the addresses of the members to which `self` offers itself; `self` is a member that
// cannot be dialled and that holds a state. These are at most eight of the members that can be
// dialled, in roster order after `self`. No member receives the offers of more than four others.
std::vector<std::string> GivesTo(const v1::Roster& roster, const std::string& self);

// Lets a peer that cannot be dialled give its data to other peers: it dials them and waits for
// their requests.
//
// Giver keeps one call for entries and one for a snapshot open to each peer of GivesTo; a call that
// was used or has broken is dialled again after a pause. The peer's Donor answers the requests on
// these calls.
class Giver {
 public:
  // `donor` must outlive this object.
  Giver(Env env, std::string self, Donor& donor);
  ~Giver();  // Ends the calls that wait.

  void SetTargets(const std::vector<std::string>& addresses);

 private:
  using Key = std::pair<std::string, std::string>;  // The address and the method.

  void Dial(const Key& key);
  void OnGone(const Key& key, uint64_t number);

  const Env env_;
  const std::string self_;
  Donor& donor_;

  uint64_t dialled_ = 0;
  // The wanted calls, each with the number of its open call, or 0 if it is not open.
  std::map<Key, uint64_t> calls_;
  std::set<Key> pausing_;
  CallbackGuard guard_;
};

}  // namespace atolld
