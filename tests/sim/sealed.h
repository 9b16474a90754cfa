// Checks what must hold at the end of every simulated run.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/sim/sim_cluster.h"

namespace atolld {

// Expects that every peer's log replays to the digest in the seal, and that all peers have the same
// digest.
inline void ExpectSealedEqual(SimCluster& cluster, int peers, uint64_t rounds) {
  std::set<std::string> digests;
  for (int i = 1; i <= peers; ++i) {
    const std::string name = "p" + std::to_string(i);
    const absl::StatusOr<VerifyReport> report = cluster.Verify(name);
    ASSERT_TRUE(report.ok()) << name << ": " << report.status();
    EXPECT_EQ(report->version, rounds) << name;
    EXPECT_TRUE(report->sealed) << name;
    digests.insert(ToHex(report->state_digest));
  }
  EXPECT_EQ(digests.size(), 1u);
}

}  // namespace atolld
