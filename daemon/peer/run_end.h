// RunEnd: the end of a run as a peer goes through it, from the coordinator's seal to its farewell.
//
// A replica at the sealed version closes its log and stays for whoever still needs what it holds;
// one that nobody can bring there says so and ends. One whose state is not the seal's is repaired
// while others may still be there to fetch from. Loop thread.
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

// What a peer says when the run is sealed and nobody can give it the rest, in one line: what `self`
// holds (`held`: the version, none: no state), what it lacks, who had it and what became of them,
// and `why` nobody gives it. Where the roster knows of nobody, those that made the last entry
// (`newest`) had it. Pure function.
std::string StrandedLine(const v1::Seal& seal, const std::optional<uint64_t>& held,
                         const v1::Roster& roster, const v1::EntryHeader& newest,
                         const std::string& self, const std::string& why);

class RunEnd {
 public:
  struct Events {
    std::function<bool()> coordinator_up;
    // This peer is done with the run, well or not; `farewell` is for the coordinator. May come
    // again before Stop.
    std::function<void(const absl::Status& status, const std::string& farewell)> finish;
  };

  RunEnd(Env env, std::string self, ReplicaKeeper& keeper, Events events);

  // The coordinator: at each Welcome, with its newest header, and each roster.
  void Follow(const v1::EntryHeader& newest, absl::Duration failure_timeout);
  void OnRoster(const v1::Roster& roster);
  void OnSessionDown() { coordinator_lost_ = env_.executor.Now(); }
  // The seal; said again in each Session. The roster that follows it names those that are waited
  // for. An error: no honest coordinator says it.
  absl::Status OnSealed(const v1::Seal& seal);

  void OnDigest();               // of a state of the replica
  void Stop() { over_ = true; }  // the peer finishes: nothing more is done or said

  bool sealed() const { return seal_.has_value(); }
  // Of a sealed run: what this peer waits for while there is no coordinator.
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
  v1::EntryHeader newest_;  // of the last Welcome
  v1::Roster roster_;
  absl::Time coordinator_lost_ = absl::InfinitePast();
  std::optional<v1::Seal> seal_;
  absl::Time told_;             // in this Session
  bool stranded_told_ = false;  // that nobody gives the rest
  bool roster_told_ = false;    // after it: who is waited for is known
  bool sealing_ = false;        // the seal is on its way to the disk, or there
  bool written_ = false;        // it is durable
  bool mending_ = false;
  std::string told_awaited_;  // in the log
  bool over_ = false;
  CallbackGuard guard_;
};

}  // namespace atolld
