// CrashInvariants: what must hold of a run whatever process died at whatever write, seen from
// outside: what peers say on their Sessions, the coordinator's store, the disks.
//
// Each violation is one line. The checks read disks and change nothing. One thread.
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

  // A frame of a peer's Session: the version that it says it holds never falls, and all that name
  // the digest of a version name the same one.
  void OnFrame(const std::string& peer, const Frame& frame);

  // Just after a death: every version that the coordinator has promised is still in its store, and
  // each is whole on the disks of a quorum.
  void CheckDurable(SimCluster& cluster);

  // After the seal: each disk's log replays, in one history, to its version's digest; all but those
  // that left or were away hold the last version and the seal; no sample is spent twice.
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
  std::map<std::string, uint64_t> said_;     // by peer: its newest version
  std::map<uint64_t, std::string> digests_;  // of each version's state
  std::vector<std::string> promised_;        // digest of each header that was in the store
  std::vector<std::string> faults_;
};

}  // namespace atolld
