// How donors that nobody can dial give what they have: they dial those that can be dialled and wait
// to be asked.
//
// Giver is the donor's end, OfferedCalls the end of those that fetch. Loop thread.
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

// The donor's address for those that fetch.
std::string OfferedAddress(absl::string_view peer);

// The calls over which donors that nobody can dial give what they have.
//
// Such a donor dials (GiveEntries, GiveSnapshot), names itself, and waits to be asked. To those
// that fetch this is a Transport: who dials "offered:PEER" gets a call of that peer's that waits,
// as if it had been dialled; every other address goes to the transport below. What comes over it is
// judged as any donor's.
class OfferedCalls final : public Transport {
 public:
  // `env` outlives it. `on_change`: donors() is another.
  OfferedCalls(Env env, std::function<void()> on_change);
  ~OfferedCalls() override;

  // A call of one of the two methods. Of one peer and method one waits, the newest; beyond 128 in
  // all, or 4 of one caller, they are refused with RESOURCE_EXHAUSTED. INVALID_ARGUMENT: it does
  // not name itself; PERMISSION_DENIED: it names another.
  void Accept(const std::string& method, std::unique_ptr<Call> call);

  // Peers of which a call waits.
  std::set<std::string> donors() const;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  // NOT_FOUND by on_closed: no call of that peer waits, or it has ended the call; why it cannot
  // say.
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

 private:
  using Key = std::pair<std::string, std::string>;  // peer, the method that fetches

  int WaitOf(const std::optional<Identity>& caller) const;
  void OnOpened(uint64_t number, const std::string& method, const Frame& frame);
  void Drop(uint64_t number);
  void Changed();

  const Env env_;
  const std::function<void()> on_change_;

  uint64_t accepted_ = 0;
  std::map<uint64_t, std::unique_ptr<StartedCall>> calls_;  // that wait, or have not named anybody
  std::map<Key, uint64_t> waiting_;
  Refusals refusals_;
  CallbackGuard guard_;
};

// Addresses of those that `self`, a member without an address that holds a state, offers itself to:
// eight at most of those that others can dial, in roster order after itself. To each of them four
// offer themselves at most, likewise.
std::vector<std::string> GivesTo(const v1::Roster& roster, const std::string& self);

// How a peer that nobody can dial gives to others all the same: it dials them and lets them ask.
//
// It keeps one call for entries and one for a snapshot open to each peer that it is to offer itself
// to; a call that has ended, used or broken, is dialled anew after a pause. What is asked over it
// the peer's Donor answers.
class Giver {
 public:
  // `donor` outlives it.
  Giver(Env env, std::string self, Donor& donor);
  ~Giver();  // ends the calls that wait

  void SetTargets(const std::vector<std::string>& addresses);

 private:
  using Key = std::pair<std::string, std::string>;  // address, method

  void Dial(const Key& key);
  void OnGone(const Key& key, uint64_t number);

  const Env env_;
  const std::string self_;
  Donor& donor_;

  uint64_t dialled_ = 0;
  std::map<Key, uint64_t> calls_;  // wanted; the number of the one that is open, 0: none is
  std::set<Key> pausing_;
  CallbackGuard guard_;
};

}  // namespace atolld
