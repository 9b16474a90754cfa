#include "membership/experts/expert_owners.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "membership/experts/expert_parts.h"

namespace atolld {
namespace {

std::vector<std::string> PeersTo(int count) {
  std::vector<std::string> peers;
  for (int i = 1; i <= count; ++i) peers.push_back(absl::StrCat("p", i));
  return peers;
}

// Returns the fewest and the most owners of any expert among these peers.
std::pair<size_t, size_t> OwnersAmong(const ExpertOwners& owners, uint32_t experts,
                                      const std::vector<std::string>& peers) {
  std::pair<size_t, size_t> bounds = {peers.size() + 1, 0};
  for (uint32_t expert = 0; expert < experts; ++expert) {
    const auto count =
        static_cast<size_t>(std::count_if(peers.begin(), peers.end(), [&](const auto& peer) {
          return BitAt(owners.OwnedBy(peer), expert);
        }));
    bounds = {std::min(bounds.first, count), std::max(bounds.second, count)};
  }
  return bounds;
}

size_t MostOwned(const ExpertOwners& owners, const std::vector<std::string>& peers) {
  size_t most = 0;
  for (const std::string& peer : peers) most = std::max(most, CountBits(owners.OwnedBy(peer)));
  return most;
}

// Returns how many experts these peers own now that they did not own then.
size_t Gained(const ExpertOwners& owners, const std::map<std::string, std::string>& then,
              const std::vector<std::string>& peers) {
  size_t gained = 0;
  for (const std::string& peer : peers) {
    std::string more = owners.OwnedBy(peer);
    const auto known = then.find(peer);
    if (known != then.end()) RemoveBits(known->second, &more);
    gained += CountBits(more);
  }
  return gained;
}

std::map<std::string, std::string> OwnedNow(const ExpertOwners& owners) {
  return {owners.owned().begin(), owners.owned().end()};
}

using Owners = std::pair<size_t, size_t>;

// Broken: an expert would have fewer owners than the run says, and would be lost with fewer deaths;
// or more, and each peer would train more than it must.
TEST(ExpertOwners, EachExpertHasAsManyOwnersAsTheRunSays) {
  for (const uint32_t experts : {2u, 7u, 64u}) {
    for (const uint32_t wanted : {1u, 2u, 3u}) {
      for (const int count : {1, 2, 3, 5, 11}) {
        ExpertOwners owners(experts, wanted, 9);
        const std::vector<std::string> peers = PeersTo(count);
        owners.Assign(1, peers);
        const auto expected = std::min<size_t>(wanted, peers.size());
        EXPECT_EQ(OwnersAmong(owners, experts, peers), Owners(expected, expected))
            << experts << " experts of " << wanted << " owners, " << count << " peers";
        for (const std::string& peer : peers) {
          EXPECT_TRUE(ValidOwned(owners.OwnedBy(peer), experts));
        }
      }
    }
  }
}

// Broken: with fewer peers than owners an expert would have none, or the peers would not own all.
TEST(ExpertOwners, FewerPeersThanOwnersOwnEverything) {
  ExpertOwners owners(5, 3, 1);
  owners.Assign(1, {"p1", "p2"});
  EXPECT_EQ(owners.OwnedBy("p1"), OwnsAll(5));
  EXPECT_EQ(owners.OwnedBy("p2"), OwnsAll(5));
  EXPECT_EQ(owners.OwnedBy("p3"), OwnsNothing(5)) << "nobody has told of it";
  owners.Assign(2, {});
  EXPECT_EQ(owners.OwnedBy("p1"), OwnsAll(5)) << "a round without peers changes nothing";
}

// Broken: some peers would need much more memory and time than others.
TEST(ExpertOwners, NoPeerOwnsMoreThanItsShareWhateverComesAndGoes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ExpertOwners owners(64, 2, seed);
    std::vector<std::string> peers = PeersTo(8);
    for (uint64_t version = 1; version <= 12; ++version) {
      owners.Assign(version, peers);
      const size_t share = (64 * 2 + peers.size() - 1) / peers.size();
      EXPECT_LE(MostOwned(owners, peers), share) << "seed " << seed << ", " << version;
      EXPECT_EQ(OwnersAmong(owners, 64, peers), Owners(2, 2)) << "seed " << seed << ", " << version;
      if (version % 2 == 1) {
        peers.erase(peers.begin() + static_cast<ptrdiff_t>((seed + version) % peers.size()));
      } else {
        peers.push_back(absl::StrCat("new", version));
      }
    }
  }
}

// Broken: all experts would move whenever a peer comes or goes, and each move costs the state of an
// optimiser.
TEST(ExpertOwners, FewExpertsMoveWhenAPeerComesOrGoes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<std::string> eight = PeersTo(8);
    ExpertOwners owners(64, 2, seed);
    owners.Assign(1, eight);
    const auto before = OwnedNow(owners);
    owners.Assign(2, eight);
    EXPECT_EQ(OwnedNow(owners), before) << "nobody came or went; seed " << seed;
    // What the one owned that has gone, and nothing else.
    const std::vector<std::string> seven(eight.begin() + 1, eight.end());
    owners.Assign(3, seven);
    EXPECT_EQ(Gained(owners, before, seven), CountBits(before.at("p1"))) << "seed " << seed;
    // A share for the one that has come back, and less than that among the others.
    const auto without = OwnedNow(owners);
    owners.Assign(4, eight);
    EXPECT_GE(CountBits(owners.OwnedBy("p1")), 1u) << "seed " << seed;
    EXPECT_LE(Gained(owners, without, eight), size_t{2 * 64 * 2 / 8}) << "seed " << seed;
  }
}

// Broken: a peer that joins in the middle of a round would take an expert from one that trains it,
// or would train nothing although an expert lacks an owner.
TEST(ExpertOwners, InOneRoundWhatTrainsStays) {
  ExpertOwners owners(6, 2, 3);
  owners.Assign(1, {"p1"});
  EXPECT_EQ(owners.OwnedBy("p1"), OwnsAll(6));
  owners.Assign(1, {"p1", "p2"});
  EXPECT_EQ(owners.OwnedBy("p1"), OwnsAll(6));
  EXPECT_EQ(owners.OwnedBy("p2"), OwnsAll(6)) << "each expert lacks an owner";
  owners.Assign(1, {"p1", "p2", "p3"});
  EXPECT_EQ(owners.OwnedBy("p3"), OwnsNothing(6)) << "no expert lacks one";
  EXPECT_EQ(owners.OwnedBy("p1"), OwnsAll(6));
  owners.Assign(1, {"p1", "p3"});
  EXPECT_EQ(owners.OwnedBy("p2"), OwnsAll(6)) << "it may come back with what it has trained";
  owners.Assign(2, {"p1", "p2", "p3"});
  EXPECT_EQ(OwnersAmong(owners, 6, PeersTo(3)), Owners(2, 2));
  EXPECT_GE(CountBits(owners.OwnedBy("p3")), 1u);
  owners.Assign(3, {"p1", "p3"});
  EXPECT_EQ(owners.OwnedBy("p2"), OwnsNothing(6)) << "it is gone in a new round";
}

// Broken: after a restart of the coordinator all experts would move.
TEST(ExpertOwners, ARestartGoesOnFromTheNewestHeader) {
  const std::vector<std::string> peers = PeersTo(5);
  ExpertOwners former(40, 2, 17);
  former.Assign(1, PeersTo(6));
  former.Assign(2, peers);
  v1::EntryHeader header;
  header.set_version(2);
  for (const auto& [peer, owned] : former.owned()) {
    v1::Contributor* const one = header.add_contributors();
    one->set_peer(peer);
    one->set_owned(owned);
  }
  ExpertOwners next(40, 2, 17);
  next.Load(&header);
  EXPECT_EQ(OwnedNow(next), OwnedNow(former));
  next.Assign(3, peers);
  EXPECT_EQ(OwnedNow(next), OwnedNow(former));
  // A contributor that does not say what it owns, or says it of another model, owns nothing.
  header.mutable_contributors(0)->set_owned("");
  header.mutable_contributors(1)->set_owned("\x01");
  next.Load(&header);
  EXPECT_EQ(next.OwnedBy("p1"), OwnsNothing(40));
  EXPECT_EQ(next.OwnedBy("p2"), OwnsNothing(40));
  EXPECT_EQ(next.OwnedBy("p3"), former.OwnedBy("p3"));
}

// Broken: two coordinators of one run would disagree, or all runs would load the same peers.
TEST(ExpertOwners, TheSeedDecidesAndNothingElse) {
  ExpertOwners one(16, 1, 5), same(16, 1, 5), other(16, 1, 6);
  const std::vector<std::string> peers = PeersTo(4);
  one.Assign(1, peers);
  same.Assign(1, {peers.rbegin(), peers.rend()});
  other.Assign(1, peers);
  EXPECT_EQ(OwnedNow(one), OwnedNow(same)) << "the order of the peers must not matter";
  EXPECT_NE(OwnedNow(one), OwnedNow(other));
}

}  // namespace
}  // namespace atolld
