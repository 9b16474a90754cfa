// Regions: a swarm of five peers in two regions, and a plan with relays, for tests of trees.
//
// One region has p1, p2 and p3, the other p4 and p5. Links are fast within a region and slow
// between the two. p1 and p4 are reducers. In p1's shard, p4 is the relay of its region; in p4's
// shard, p2 is the relay of the other region.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {

struct Regions {
  using Names = std::vector<std::string>;

  explicit Regions(uint64_t seed, bool zstd = false, const std::string& codec = "int8")
      : Regions(Settings(seed, zstd, codec)) {}
  explicit Regions(const SwarmSettings& settings) : swarm(settings) {
    for (const std::string& name : names) swarm.Add(name);
    SimLinkSettings slow;
    slow.bytes_per_second = 60e3;
    slow.latency = absl::Milliseconds(20);
    for (const std::string& near : west) {
      for (const std::string& far : east) swarm.world.network().SetLink(near, far, slow);
    }
    plan = swarm.MakePlan(names, {"p1", "p4"});
    Swarm::AddRelay(&plan, 0, "p4", east);
    Swarm::AddRelay(&plan, 1, "p2", west);
  }
  static SwarmSettings Settings(uint64_t seed, bool zstd, const std::string& codec) {
    SwarmSettings settings;
    settings.seed = seed;
    settings.zstd = zstd;
    settings.codec = codec;
    return settings;
  }
  void GiveAll(const v1::Plan& given) {
    for (const std::string& name : names) swarm.Give(name, given);
  }
  bool Finish(const Names& who, uint32_t revision) {
    return swarm.world.RunUntil([&] { return swarm.Complete(who, revision); }, absl::Seconds(30));
  }
  Names Without(const std::string& dead) const {
    Names rest;
    for (const std::string& name : names) {
      if (name != dead) rest.push_back(name);
    }
    return rest;
  }

  const Names west = {"p1", "p2", "p3"};
  const Names east = {"p4", "p5"};
  const Names names = {"p1", "p2", "p3", "p4", "p5"};
  Swarm swarm;
  v1::Plan plan;
};

}  // namespace atolld
