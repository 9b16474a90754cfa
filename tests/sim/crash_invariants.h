// CrashInvariants: checks what must hold for a run no matter which process died at which write. It
// observes the run from outside: the peers' Sessions, the coordinator's store, and the disks.
//
// Each violation is one line. The checks only read the disks. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/sim_cluster.h"

namespace atolld {

class CrashInvariants {
 public:
  explicit CrashInvariants(uint32_t quorum) : quorum_(quorum) {}

  // Checks a frame of a peer's Session: the version that the peer says it holds never falls, and
  // all peers name the same digest for a version.
  void OnFrame(const std::string& peer, const Frame& frame);

  // Checks, just after a death, that every version that the coordinator has promised is still in
  // its store and whole on the disks of a quorum.
  void CheckDurable(SimCluster& cluster);

  // Checks after the seal that each disk's log replays, as one history, to its version's digest;
  // that all peers but those that left or are `away` hold the last version and the seal; and that
  // no sample is spent twice.
  void CheckEnd(SimCluster& cluster, const std::set<std::string>& away, uint64_t rounds);

  void Fault(std::string line) { faults_.push_back(std::move(line)); }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  void OnVersion(const std::string& peer, uint64_t version);
  void OnDigest(const std::string& peer, uint64_t version, const std::string& digest);
  void CheckDisk(SimCluster& cluster, const std::string& peer, bool away, uint64_t rounds);
  void CheckHistory(SimCluster& cluster, const std::string& peer);
  void CheckSamples(const StoredRun& run);

  const uint32_t quorum_;
  std::map<std::string, uint64_t> said_;     // The newest version that each peer says it holds.
  std::map<uint64_t, std::string> digests_;  // The digest of each version's state.
  std::vector<std::string> promised_;        // The digest of each header that was in the store.
  std::vector<std::string> faults_;
};

}  // namespace atolld
