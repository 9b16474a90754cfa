// What the roster means for a peer's calls: whom it takes calls from (RosterGate), whom it dials
// (RosterDialler), and what a new roster adds to its log (RosterChanges).
//
// An evicted peer, or one whose key is revoked, loses its calls in both directions as soon as the
// roster says so. Loop thread.
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

// A call that is over before it begins, where there is nobody to dial.
class NoCall final : public Call {
 public:
  // on_closed, later and from the loop, says `why`.
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

// What a call to or from a peer that is no longer on the roster ends with.
inline absl::Status EvictedError(const std::string& peer) {
  return absl::PermissionDeniedError(absl::StrCat("peer ", peer, " was evicted"));
}

// What a call of whoever shows a revoked key ends with.
inline absl::Status RevokedKeyError(const std::string& peer) {
  return absl::PermissionDeniedError(absl::StrCat("a key of peer ", peer, " was revoked"));
}

// The keys that a roster revokes, as Identity::key has them, and whose each was.
std::map<std::string, std::string> RevokedKeysOf(const v1::Roster& roster);

// Calls that can be taken from whoever owns them, by the peer at their other end. The owner of one
// that is cut hears on_closed, and nothing that comes over it any more.
class CutCalls {
 public:
  explicit CutCalls(Executor& executor) : executor_(executor) {}

  // A call to use in place of `call`, whose other end is `peer`. It may outlive this.
  std::unique_ptr<Call> Wrap(const std::string& peer, std::unique_ptr<Call> call);

  // Those of the peer that are there; returns how many. Their owners are told later, from the loop.
  size_t Cut(const std::string& peer, const absl::Status& why);
  // Those of callers who have shown one of these keys.
  size_t CutKeys(const std::map<std::string, std::string>& revoked);
  size_t Count(const std::string& peer) const { return live_->count(peer); }

 private:
  class CutCall;
  using Live = std::multimap<std::string, CutCall*>;  // by peer

  Executor& executor_;
  const std::shared_ptr<Live> live_ = std::make_shared<Live>();
};

// Whether the member takes part in the run now, as far as anybody knows.
bool IsHere(const v1::Member& member);

// What a new roster tells a peer that the one before did not, as a line for its log: an operator,
// or a benchmark, reads there when this peer learned that another one died or came back.
struct RosterChange {
  std::string line;   // "peer p3 is dead"
  bool loss = false;  // somebody is missed: suspect or dead
};

// One change a member whose state differs from what it was, in roster order; never of `self`.
// Somebody who was not listed before counts as changed. Where very many have come to one state they
// are one line, but each that is missed has its own. Pure function.
std::vector<RosterChange> RosterChanges(const v1::Roster& before, const v1::Roster& after,
                                        const std::string& self);

// Of `roster` those members, ascending, that the delta says something new of. Pure function.
v1::Roster MembersNamed(const v1::Roster& roster, const v1::RosterDelta& delta);

// Whether some member has another state or address than before, or there was none.
bool CallsChange(const v1::Roster& before, const v1::Roster& after);

// How a peer dials other peers: those that the roster names, where it names them.
//
// Whoever answers at an address must be the member that the roster has there. One that is evicted
// is not dialled, and calls to it that go on are cut the moment the roster says so: RosterGate does
// the same to the calls that come. Whoever answers with a revoked key is nobody: when a key of a
// member's is revoked, the calls to that member are cut as well, and the next shakes hands anew.
// The coordinator's methods go to the transport below untouched.
class RosterDialler final : public Transport {
 public:
  // `under` outlives it.
  RosterDialler(Executor& executor, Transport& under);

  // Returns how many calls were cut.
  size_t SetRoster(const v1::Roster& roster);

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  // UNAVAILABLE by on_closed: no member is there. PERMISSION_DENIED: it was evicted.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  Executor& executor_;
  Transport& under_;
  std::map<std::string, std::string> members_;  // by address
  std::set<std::string> evicted_;
  std::map<std::string, std::string> revoked_;  // by key
  CutCalls live_;
};

// Whom a peer takes calls from: the coordinator, administrators, and members of the roster.
//
// A caller that an operator has evicted, or whose key is revoked, is refused, and its calls that go
// on are cut the moment the roster says so. One that the roster does not know yet may have joined a
// moment ago: its call waits for the next roster, unread. No caller may have more calls open, or
// waiting, than a member has use for. Calls without an identity (plain text) all pass.
class RosterGate {
 public:
  // Beyond these a call is RESOURCE_EXHAUSTED.
  struct Limits {
    size_t calls_of_one = 256;   // open at a time, of one caller
    size_t waiting_of_one = 64;  // for a roster: a member's first exchange, on all lanes
    size_t waiting = 1024;       // of all callers together
  };

  // `admit` is given the calls that may be made. `patience`: how long one waits for a roster that
  // names its caller; then it is UNAVAILABLE.
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
  std::map<std::string, std::string> revoked_;  // by key
  CutCalls live_;
  uint64_t waited_ = 0;
  std::map<uint64_t, Waiting> waiting_;  // in the order of arrival
  Refusals refusals_;
  CallbackGuard guard_;
};

}  // namespace atolld
