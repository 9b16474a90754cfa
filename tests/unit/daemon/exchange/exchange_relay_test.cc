#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compression/wire_codec.h"
#include "gtest/gtest.h"
#include "membership/history/mean_records.h"
#include "tests/unit/daemon/exchange/liar.h"
#include "tests/unit/daemon/exchange/regions.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

// Would break: plans by region: other bits than the header promises, or records that do not tell
// what was averaged where.
TEST(ExchangeRelay, GivesEverybodyTheMeanOfMeans) {
  for (const bool zstd : {false, true}) {
    for (const std::string& codec : CodecNames()) {
      Regions regions(1, zstd, codec);
      Swarm& swarm = regions.swarm;
      regions.GiveAll(regions.plan);
      ASSERT_TRUE(regions.Finish(regions.names, 1)) << swarm.world.LogText();
      swarm.CheckOutcomes(regions.names, regions.plan, regions.names);
      const v1::MeanRecords& records = swarm.peer("p5").outcomes.at(1).records;
      ASSERT_EQ(records.sets_size(), 2);
      ASSERT_EQ(records.sets(0).partials_size(), 1);
      EXPECT_EQ(records.sets(0).partials(0), Swarm::Bitmap(regions.plan, regions.east));
      ASSERT_EQ(records.sets(1).partials_size(), 1);
      EXPECT_EQ(records.sets(1).partials(0), Swarm::Bitmap(regions.plan, regions.west));
      for (const auto& shard : records.shards()) EXPECT_EQ(shard.runs_size(), 1);
      // Each chunk once at a relay, once at its reducer.
      EXPECT_EQ(swarm.Averaged(), 2u * swarm.grid.chunks());
      for (const std::string& name : regions.names) {
        EXPECT_TRUE(swarm.peer(name).unreachable.empty());
        EXPECT_EQ(swarm.peer(name).held.size(), 2u);
      }
    }
  }
}

// Would break: a level in the other's codec: partial means and results that nobody can decode, or
// updates that are sent as if they were means.
TEST(ExchangeRelay, EachLevelHasItsCodec) {
  for (const std::string& codec : CodecNames()) {
    for (const std::string& upper : CodecNames()) {
      if (!ParseLevels(codec, upper).ok()) continue;
      SCOPED_TRACE(codec + "/" + upper);
      SwarmSettings settings = Regions::Settings(1, false, codec);
      settings.upper_codec = upper;
      settings.upper_zstd = codec < upper;
      Regions regions(settings);
      regions.GiveAll(regions.plan);
      ASSERT_TRUE(regions.Finish(regions.names, 1)) << regions.swarm.world.LogText();
      regions.swarm.CheckOutcomes(regions.names, regions.plan, regions.names);
      for (const std::string& name : regions.names) {
        EXPECT_TRUE(regions.swarm.peer(name).unreachable.empty());
      }
    }
  }
}

// Would break: what a codec for means is for: over the slow links goes what it makes of them, and
// nothing in the codec of updates.
TEST(ExchangeRelay, BetweenRegionsPassMeansAlone) {
  const auto between = [](const std::string& upper) {
    SwarmSettings settings = Regions::Settings(2, false, "fp32");
    settings.elements = 64 * 1024;
    settings.chunk_elements = 2048;
    settings.upper_codec = upper;
    Regions regions(settings);
    regions.GiveAll(regions.plan);
    EXPECT_TRUE(regions.Finish(regions.names, 1));
    uint64_t bytes = 0;
    for (const std::string& near : regions.west) {
      for (const std::string& far : regions.east) {
        bytes += regions.swarm.world.network().bytes_sent(near, far);
        bytes += regions.swarm.world.network().bytes_sent(far, near);
      }
    }
    return static_cast<double>(bytes);
  };
  EXPECT_NEAR(between("int4") / between(""), 4.5 / 32, 0.02);
  EXPECT_EQ(between("fp32"), between(""));
}

// Would break: what relays are for: one copy over the slow links, each way.
TEST(ExchangeRelay, SendsOneCopyBetweenRegions) {
  Regions regions(2);
  Swarm& swarm = regions.swarm;
  regions.GiveAll(regions.plan);
  ASSERT_TRUE(regions.Finish(regions.names, 1));
  uint64_t between = 0;
  for (const std::string& near : regions.west) {
    for (const std::string& far : regions.east) {
      between += swarm.world.network().bytes_sent(near, far);
      between += swarm.world.network().bytes_sent(far, near);
    }
  }
  EXPECT_EQ(swarm.world.network().bytes_sent("p5", "p1"), 0u);
  EXPECT_EQ(swarm.world.network().bytes_sent("p1", "p5"), 0u);
  // Half a payload of partial means and half of results each way.
  const uint64_t payload = swarm.peer("p1").outcomes.at(1).payload.size();
  EXPECT_LT(between, 2 * payload * 115 / 100);  // small chunks, so heads count
}

// Would break: a reducer that is in a relay's group would be counted twice or not at all, or wait
// for itself.
TEST(ExchangeRelay, TakesItsReducersOwnChunkToo) {
  Regions regions(3);
  Swarm& swarm = regions.swarm;
  v1::Plan plan = swarm.MakePlan(regions.names, {"p1", "p4"});
  Swarm::AddRelay(&plan, 0, "p2", {"p1", "p2", "p3"});
  Swarm::AddRelay(&plan, 0, "p5", {"p4", "p5"});
  Swarm::AddRelay(&plan, 1, "p3", {"p3", "p5"});
  regions.GiveAll(plan);
  ASSERT_TRUE(regions.Finish(regions.names, 1)) << swarm.world.LogText();
  swarm.CheckOutcomes(regions.names, plan, regions.names);
  EXPECT_EQ(swarm.peer("p1").outcomes.at(1).records.sets(0).partials_size(), 2);
}

// Would break: a peer that contributes nothing would ask a relay that does not know it.
TEST(ExchangeRelay, GuestsAndReducersWithoutUpdateAreServed) {
  Regions regions(4);
  Swarm& swarm = regions.swarm;
  swarm.Add("agg", false);
  swarm.Add("guest", false);
  v1::Plan plan = swarm.MakePlan(regions.names, {"agg", "p4"});
  Swarm::AddRelay(&plan, 0, "p2", regions.west);
  Swarm::AddRelay(&plan, 0, "p5", regions.east);
  regions.GiveAll(plan);
  swarm.Give("agg", plan);
  swarm.Give("guest", plan);
  Names all = regions.names;
  all.insert(all.end(), {"agg", "guest"});
  ASSERT_TRUE(regions.Finish(all, 1)) << swarm.world.LogText();
  swarm.CheckOutcomes(all, plan, regions.names);
}

// Would break: the death of a relay would cost its region the round, or count a member twice: in
// the dead relay's partial mean and on its own.
TEST(ExchangeRelay, MayDieAtAnyInstant) {
  int mixed = 0;
  for (int milliseconds = 0; milliseconds < 180; milliseconds += 4) {
    SCOPED_TRACE(milliseconds);
    Regions regions(static_cast<uint64_t>(milliseconds) + 10, milliseconds % 8 == 0);
    Swarm& swarm = regions.swarm;
    regions.GiveAll(regions.plan);
    swarm.world.RunFor(absl::Milliseconds(milliseconds));
    swarm.Kill("p2");
    swarm.world.RunFor(absl::Milliseconds(30));
    // p2 reduces nothing. Its members send to the reducer, or to another relay.
    v1::Plan next = regions.plan;
    next.set_revision(2);
    next.add_lost("p2");
    next.mutable_shards(1)->clear_relays();
    if (milliseconds % 3 == 0) Swarm::AddRelay(&next, 1, "p3", {"p1", "p3"});
    const Names rest = regions.Without("p2");
    for (size_t i = 0; i < rest.size(); ++i) {
      swarm.world.At(absl::Milliseconds(i * 7 * static_cast<size_t>(milliseconds) % 50),
                     [&swarm, &rest, &next, i] { swarm.Give(rest[i], next); });
    }
    ASSERT_TRUE(regions.Finish(rest, 2)) << swarm.world.LogText();
    swarm.CheckOutcomes(rest, next, rest);
    mixed += swarm.peer("p1").outcomes.at(2).records.shards(1).runs_size() > 1 ? 1 : 0;
    for (const std::string& name : rest) EXPECT_TRUE(swarm.peer(name).failed.empty());
  }
  EXPECT_GT(mixed, 5);  // shards in which some of the dead relay's means stand, others do not
}

// Would break: the death of a reducer above relays: partial means of two attempts would mix, or a
// holder's clients go on sending.
TEST(ExchangeRelay, SurvivesTheDeathOfTheReducer) {
  int held = 0;
  for (int milliseconds = 0; milliseconds < 180; milliseconds += 6) {
    SCOPED_TRACE(milliseconds);
    Regions regions(static_cast<uint64_t>(milliseconds) + 500);
    Swarm& swarm = regions.swarm;
    regions.GiveAll(regions.plan);
    swarm.world.RunFor(absl::Milliseconds(milliseconds));
    swarm.Kill("p1");
    swarm.world.RunFor(absl::Milliseconds(20));
    const Names rest = regions.Without("p1");
    std::string holder;
    for (const std::string& name : rest) {
      for (const auto& [shard, attempt] : swarm.peer(name).held) {
        if (shard == 0) holder = name;
      }
    }
    v1::Plan next = holder.empty() ? Swarm::Revise(regions.plan, "p1", "p3")
                                   : Swarm::Hold(regions.plan, "p1", holder);
    held += holder.empty() ? 0 : 1;
    regions.GiveAll(next);
    ASSERT_TRUE(regions.Finish(rest, 2)) << swarm.world.LogText();
    swarm.CheckOutcomes(rest, next, rest);
  }
  EXPECT_GT(held, 2);
  EXPECT_LT(held, 28);
}

// A plan in which p1 reduces all, and p3, whom the test speaks for, relays for itself and p2.
struct Scripted {
  explicit Scripted(bool zstd = false) : swarm(Settings(zstd)), liar(swarm) {
    for (const std::string& name : names) swarm.Add(name);
    swarm.world.AddProcess("liar");
    plan = swarm.MakePlan(names, {"p1"});
    Swarm::AddRelay(&plan, 0, "p3", {"p2", "p3"});
  }
  static SwarmSettings Settings(bool zstd) {
    SwarmSettings settings;
    settings.zstd = zstd;
    return settings;
  }
  SharedBytes Chunk(const std::string& name, uint32_t chunk) {
    return swarm.peer(name).contribution->chunks[chunk];
  }
  bool Finish(const Names& who, uint32_t revision) {
    return swarm.world.RunUntil([&] { return swarm.Complete(who, revision); }, absl::Seconds(5));
  }

  const Names names = {"p1", "p2", "p3"};
  Swarm swarm;
  Liar liar;
  v1::Plan plan;
};

// Would break: the law of trees: a relay could have a contributor counted twice.
TEST(ExchangeRelay, APartialThatOverlapsIsNotTaken) {
  Scripted scene;
  Swarm& swarm = scene.swarm;
  // p2 sends for itself, then is said to be in p3's group; what of it is here stands when it dies.
  v1::Plan flat = scene.plan;
  flat.mutable_shards(0)->clear_relays();
  swarm.Give("p1", flat);
  swarm.Give("p2", flat);
  swarm.world.RunFor(absl::Milliseconds(100));
  swarm.Kill("p2");
  v1::Plan next = scene.plan;
  next.set_revision(2);
  next.add_lost("p2");
  swarm.Give("p1", next);
  scene.liar.Open(next);
  const std::string both = Swarm::Bitmap(next, {"p2", "p3"});
  for (uint32_t c = 0; c < swarm.grid.chunks(); ++c) {
    scene.liar.Send(c, 1, scene.Chunk("p3", c), both, 2);
  }
  ASSERT_TRUE(scene.Finish({"p1"}, 2)) << swarm.world.LogText();
  swarm.CheckOutcomes({"p1"}, next, {"p1", "p2"});
  EXPECT_EQ(swarm.world.LogCount("count a contributor twice"), swarm.grid.chunks());
  swarm.world.RunFor(absl::Milliseconds(100));
  EXPECT_TRUE(scene.liar.closed.empty());  // it is told nothing bad
  EXPECT_EQ(scene.liar.results, static_cast<int>(swarm.grid.chunks()));
}

// Would break: who reaches a reducer could claim to speak for others.
TEST(ExchangeRelay, OnlyARelayMaySpeakForOthersAndForItsGroupAlone) {
  for (int lie = 0; lie < 5; ++lie) {
    SCOPED_TRACE(lie);
    Scripted scene;
    Swarm& swarm = scene.swarm;
    if (lie == 0) scene.plan.mutable_shards(0)->clear_relays();
    swarm.Give("p1", scene.plan);
    scene.liar.Open(scene.plan);
    const std::string both = Swarm::Bitmap(scene.plan, {"p2", "p3"});
    if (lie == 0) scene.liar.Send(0, 1, scene.Chunk("p3", 0), both);
    if (lie == 1) scene.liar.Send(0, 1, scene.Chunk("p3", 0));  // its own: that is the relay's
    if (lie == 2) scene.liar.Send(0, 1, scene.Chunk("p3", 0), "\x10");
    if (lie == 3) scene.liar.Send(0, 1, scene.Chunk("p3", 0), std::string(9, '\x04'));
    if (lie == 4) scene.liar.Send(0, 1, WithNanScale(scene.Chunk("p3", 0)), both);
    swarm.world.RunFor(absl::Milliseconds(100));
    ASSERT_EQ(scene.liar.closed.size(), 1u) << swarm.world.LogText();
    EXPECT_TRUE(absl::IsInvalidArgument(scene.liar.closed[0]));
    // The members of a relay that lies are left out, not waited for.
    if (lie == 0) continue;
    ASSERT_TRUE(scene.Finish({"p1"}, 1)) << swarm.world.LogText();
    swarm.CheckOutcomes({"p1"}, scene.plan, {"p1"});
  }
  Scripted scene;
  scene.swarm.Give("p1", scene.plan);
  scene.liar.Open(scene.plan);
  const std::string beyond = Swarm::Bitmap(scene.plan, scene.names);
  for (uint32_t c = 0; c < scene.swarm.grid.chunks(); ++c) {
    scene.liar.Send(c, 1, scene.Chunk("p3", c), beyond);
  }
  ASSERT_TRUE(scene.Finish({"p1"}, 1)) << scene.swarm.world.LogText();
  scene.swarm.CheckOutcomes({"p1"}, scene.plan, {"p1"});
}

// Would break: a member that a relay has to refuse would hold up the round at the reducer, which
// never hears of it.
TEST(ExchangeRelay, AMemberThatItsRelayRefusesIsLeftOut) {
  for (const bool zstd : {false, true}) {
    Regions regions(7, zstd);
    Swarm& swarm = regions.swarm;
    swarm.world.AddProcess("liar");
    v1::Plan plan = swarm.MakePlan(regions.names, {"p1"});
    Swarm::AddRelay(&plan, 0, "p4", regions.east);
    for (const char* name : {"p1", "p2", "p3", "p4"}) swarm.Give(name, plan);
    Liar liar(swarm);
    liar.Open(plan, "p5", "p4");
    if (!zstd) liar.Send(0, 1, swarm.peer("p5").contribution->chunks[0]);
    liar.Send(1, 1, WithNanScale(swarm.peer("p5").contribution->chunks[1]));
    const Names honest = {"p1", "p2", "p3", "p4"};
    ASSERT_TRUE(regions.Finish(honest, 1)) << swarm.world.LogText();
    swarm.CheckOutcomes(honest, plan, honest);
    ASSERT_EQ(liar.closed.size(), 1u);
    EXPECT_TRUE(absl::IsInvalidArgument(liar.closed[0]));
    const v1::MeanRecords& records = swarm.peer("p1").outcomes.at(1).records;
    const int most = records.shards(0).runs_size() - 1;  // the first chunk may have another set
    EXPECT_EQ(SetOf(records, records.shards(0).runs(most)).partials(0),
              Swarm::Bitmap(plan, {"p4"}));
    EXPECT_EQ(most, zstd ? 0 : 1);
    // It may still have the results, from its relay.
    liar.results = 0;
    Liar again(swarm);
    again.Open(plan, "p5", "p4");
    swarm.world.RunFor(absl::Seconds(1));
    EXPECT_EQ(again.results, static_cast<int>(swarm.grid.chunks()));
  }
}

// Would break: a relay that cannot be reached would be waited for until the deadline.
TEST(ExchangeRelay, ThatCannotBeReachedIsNamed) {
  Regions regions(8);
  regions.swarm.world.CutLink("p2", "p3");
  regions.GiveAll(regions.plan);
  regions.swarm.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(regions.swarm.peer("p3").unreachable.size(), 1u);
  EXPECT_EQ(regions.swarm.peer("p3").unreachable[0].first, "p2");
  v1::Plan next = regions.plan;
  next.set_revision(2);
  next.mutable_shards(1)->clear_relays();
  regions.GiveAll(next);
  ASSERT_TRUE(regions.Finish(regions.names, 2)) << regions.swarm.world.LogText();
  regions.swarm.CheckOutcomes(regions.names, next, regions.names);
}

// Would break: a relay on a slow link would pile up what it has averaged or received; a large model
// would not fit the machine.
TEST(ExchangeRelay, MemoryStaysWithinBounds) {
  for (const bool zstd : {false, true}) {
    SwarmSettings settings;
    settings.elements = 512 * 1024;
    settings.chunk_elements = 4096;
    settings.zstd = zstd;
    Swarm swarm(settings);
    const Names names = {"p1", "p2", "p3", "p4", "p5"};
    for (const std::string& name : names) swarm.Add(name);
    v1::Plan plan = swarm.MakePlan(names, {"p1", "p4"});
    Swarm::AddRelay(&plan, 0, "p4", {"p4", "p5"});
    Swarm::AddRelay(&plan, 1, "p2", {"p1", "p2", "p3"});
    for (const std::string& name : names) swarm.Give(name, plan);
    uint64_t most = 0;
    ASSERT_TRUE(swarm.world.RunUntil(
        [&] {
          for (const std::string& name : names) {
            most = std::max(most, swarm.peer(name).node->exchange->figures().held_bytes);
          }
          return swarm.Complete(names, 1);
        },
        absl::Seconds(60)));
    swarm.CheckOutcomes(names, plan, names);
    const uint64_t payload = swarm.peer("p1").outcomes.at(1).payload.size();
    // The means and what is being averaged; with zstd also their form of the wire.
    EXPECT_LT(most, payload * (zstd ? 25 : 15) / 10);
    for (const std::string& name : names) {
      const uint64_t held = swarm.peer(name).node->exchange->figures().held_bytes;
      EXPECT_LE(held, zstd ? payload : 0u) << name;
    }
  }
}

}  // namespace
}  // namespace atolld
