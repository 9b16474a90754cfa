// Applies the roster to a peer's calls: RosterGate decides which callers are accepted,
// RosterDialler dials only members, and RosterChanges writes the changes of a new roster for the
// log.
//
// If the roster says that a peer was evicted or that its key was revoked, all calls from and to
// that peer are cut at once. Used on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/exchange/started_call.h"

namespace atolld {

// A call that ends before it begins, because there is no peer to dial.
class NoCall final : public Call {
 public:
  // The call's on_closed gets `why`, later and from the loop.
  NoCall(Executor& executor, std::string remote, absl::Status why);

  void Start(Events events) override;
  void Read() override {}
  void Write(Frame) override {}
  size_t unsent_bytes() const override { return 0; }
  void Finish(absl::Status) override {}
  uint64_t sent_bytes() const override { return 0; }
  std::string remote() const override { return remote_; }
  std::optional<Identity> identity() const override { return std::nullopt; }

 private:
  Executor& executor_;
  const std::string remote_;
  const absl::Status why_;
  CallbackGuard guard_;
};

// The status with which a call to or from an evicted peer ends.
inline absl::Status EvictedError(const std::string& peer) {
  return absl::PermissionDeniedError(absl::StrCat("peer ", peer, " was evicted"));
}

// The status with which a call of a peer that shows a revoked key ends.
inline absl::Status RevokedKeyError(const std::string& peer) {
  return absl::PermissionDeniedError(absl::StrCat("a key of peer ", peer, " was revoked"));
}

// Returns the keys that a roster revokes, in the form of Identity::key; each key maps to the peer
// that had it.
std::map<std::string, std::string> RevokedKeysOf(const v1::Roster& roster);

// Wraps calls so that all calls with one peer can be cut. The owner of a call that is cut gets
// on_closed and nothing more.
class CutCalls {
 public:
  explicit CutCalls(Executor& executor) : executor_(executor) {}

  // Returns a call to use in place of `call`, whose other end is `peer`. The returned call may
  // outlive this object.
  std::unique_ptr<Call> Wrap(const std::string& peer, std::unique_ptr<Call> call);

  // Cuts all open calls with the peer and returns how many there were. Their owners get on_closed
  // later, from the loop.
  size_t Cut(const std::string& peer, const absl::Status& why);
  // Cuts the calls whose other end has shown one of these keys, and returns how many there were.
  size_t CutKeys(const std::map<std::string, std::string>& revoked);
  size_t Count(const std::string& peer) const { return live_->count(peer); }

 private:
  class CutCall;
  using Live = std::multimap<std::string, CutCall*>;  // Keyed by the peer.

  Executor& executor_;
  const std::shared_ptr<Live> live_ = std::make_shared<Live>();
};

// Returns true if the roster lists the member as live or joining.
bool IsHere(const v1::Member& member);

// A change between two rosters, as a line for the peer's log. From the log, an operator or a
// benchmark can see when this peer learned that another one died or came back.
struct RosterChange {
  std::string line;   // A line such as "peer p3 is dead".
  bool loss = false;  // True if the member became suspect or dead.
};

// Returns, in roster order, one change for each member except `self` whose state differs from
// before. A member that was not listed before counts as changed. If very many members have changed
// to the same state, they share one line, unless that state is suspect or dead. Pure. May be called
// from any thread.
std::vector<RosterChange> RosterChanges(const v1::Roster& before, const v1::Roster& after,
                                        const std::string& self);

// Returns the members of `roster` that the delta changes, in ascending order. Pure. May be called
// from any thread.
v1::Roster MembersNamed(const v1::Roster& roster, const v1::RosterDelta& delta);

// Returns true if some member is new or has another state or address than before.
bool CallsChange(const v1::Roster& before, const v1::Roster& after);

// Dials the peers that the roster names, at the addresses that the roster gives.
//
// The peer that answers at an address must be the member to which the roster gives that address. An
// evicted member is not dialled, and open calls to it are cut as soon as the roster says so;
// RosterGate does the same to incoming calls. A peer that answers with a revoked key is not
// accepted: when a member's key is revoked, the calls to that member are cut, so that the next call
// makes a new TLS handshake. Calls of the coordinator's methods are passed to the transport below
// unchanged.
class RosterDialler final : public Transport {
 public:
  // `under` must outlive this object.
  RosterDialler(Executor& executor, Transport& under);

  // Returns how many calls were cut.
  size_t SetRoster(const v1::Roster& roster);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  // The call's on_closed gives UNAVAILABLE if no member has this address, and PERMISSION_DENIED if
  // the member was evicted.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Executor& executor_;
  Transport& under_;
  std::map<std::string, std::string> members_;  // Maps an address to the member at it.
  std::set<std::string> evicted_;
  std::map<std::string, std::string> revoked_;  // Maps a key to its peer.
  CutCalls live_;
};

// Decides which callers a peer accepts: the coordinator, administrators, and members of the roster.
//
// A caller that is evicted or that has a revoked key is refused, and its open calls are cut as soon
// as the roster says so. A caller that the roster does not know yet may have joined a moment ago,
// so its call waits, unread, for the next roster. No caller may have more calls open or waiting
// than a member needs. All calls without an identity (plain text) are admitted.
class RosterGate {
 public:
  // A call beyond these limits is refused with RESOURCE_EXHAUSTED.
  struct Limits {
    size_t calls_of_one = 256;  // The most open calls of one caller.
    // The most calls of one caller that wait for a roster; enough for a member's first exchange on
    // all lanes.
    size_t waiting_of_one = 64;
    size_t waiting = 1024;  // The most waiting calls of all callers together.
  };

  // Accepted calls are passed to `admit`. A call waits at most `patience` for a roster that names
  // its caller, and then ends with UNAVAILABLE.
  RosterGate(Executor& executor, absl::Duration patience, Limits limits, Transport::Acceptor admit);
  ~RosterGate();

  void Accept(const std::string& method, std::unique_ptr<Call> call);
  // Returns how many calls were cut.
  size_t SetRoster(const v1::Roster& roster);

 private:
  struct Waiting {
    std::string method;
    std::string caller;
    std::string key;
    std::unique_ptr<Call> call;
  };

  void AcceptAdmin(const std::string& method, const Identity& caller, std::unique_ptr<Call> call);
  void Admit(const std::string& method, const std::string& caller, std::unique_ptr<Call> call);
  void Wait(const std::string& method, const Identity& caller, std::unique_ptr<Call> call);
  void LetGo(uint64_t number, const absl::Status& why);

  Executor& executor_;
  const absl::Duration patience_;
  const Limits limits_;
  const Transport::Acceptor admit_;

  std::set<std::string> members_;
  std::set<std::string> evicted_;
  std::map<std::string, std::string> revoked_;  // Maps a key to its peer.
  CutCalls live_;
  uint64_t waited_ = 0;
  std::map<uint64_t, Waiting> waiting_;  // Ordered by arrival.
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
