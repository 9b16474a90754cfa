// RunEnd: leads a peer through the end of its run, from the coordinator's seal to the peer's
// goodbye.
//
// A peer at the sealed version writes the seal and stays for the peers that still need its data. A
// peer that cannot reach the sealed version, because no peer gives it the missing entries, logs
// this and ends. A replica whose state differs from the seal's is repaired as long as other peers
// may be connected from which it can fetch. Used on the loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/peer/replica_keeper.h"
#include "membership/history/digest.h"

namespace atolld {

// Returns the line that a peer logs if the run is sealed and no peer can give it the missing
// entries. The line says what `self` holds (`held` is its version, nullopt if it has no state),
// what it lacks, which peers had that and what their state is now, and `why` no peer gives it. If
// the roster names no such peer, the line names the contributors of the last entry (`newest`).
// Pure. May be called from any thread.
std::string StrandedLine(const v1::Seal& seal, const std::optional<uint64_t>& held,
                         const v1::Roster& roster, const v1::EntryHeader& newest,
                         const std::string& self, const std::string& why);

class RunEnd {
 public:
  struct Events {
    std::function<bool()> coordinator_up;
    // Called when this peer has finished with the run, successfully or not. `farewell` is the
    // reason that the coordinator is given. May be called again before Stop.
    std::function<void(const absl::Status& status, const std::string& farewell)> finish;
  };

  RunEnd(Env env, std::string self, ReplicaKeeper& keeper, Events events);

  // Follow is called at each Welcome, with the coordinator's newest header; OnRoster at each
  // roster.
  void Follow(const v1::EntryHeader& newest, absl::Duration failure_timeout);
  void OnRoster(const v1::Roster& roster);
  void OnSessionDown() { coordinator_lost_ = env_.executor.Now(); }
  // Takes the seal, which the coordinator sends again in each Session. The roster that follows the
  // seal names the peers for which this peer waits. Fails if no honest coordinator would send the
  // seal.
  absl::Status OnSealed(const v1::Seal& seal);

  void OnDigest();  // Called when the digest of a state of the replica has become known.
  void Stop() { over_ = true; }  // Called when the peer ends. This object then does nothing more.

  bool sealed() const { return seal_.has_value(); }
  // Returns what this peer waits for in a sealed run while no coordinator is connected.
  std::string WaitsFor() const;

 private:
  void Watch();
  void Mend(const Digest& state);
  void CheckFarewell();
  void CheckStranded();

  const Env env_;
  const std::string self_;
  ReplicaKeeper& keeper_;
  const Events events_;

  absl::Duration failure_timeout_ = absl::Seconds(10);
  v1::EntryHeader newest_;  // The newest header at the last Welcome.
  v1::Roster roster_;
  absl::Time coordinator_lost_ = absl::InfinitePast();
  std::optional<v1::Seal> seal_;
  absl::Time told_;             // The time at which the seal came in this Session.
  bool stranded_told_ = false;  // True if it was logged that no peer gives the missing entries.
  // True once a roster has come after the seal. It names the peers for which this peer waits.
  bool roster_told_ = false;
  bool sealing_ = false;  // True while the seal is being written and afterwards.
  bool written_ = false;  // True once the seal is durable.
  bool mending_ = false;
  std::string told_awaited_;  // The peers that are waited for, as last logged.
  bool over_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
