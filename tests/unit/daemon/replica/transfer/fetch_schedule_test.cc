#include "daemon/replica/transfer/fetch_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace atolld {
namespace {

using Why = DonorList::Why;

TEST(DonorList, TurnsToTheNextAndSaysWhyNobodyIsLeft) {
  // Broken: a fetch would ask a dead donor for ever, or give up while a good one is left.
  DonorList donors({"a", "b"});
  EXPECT_EQ(donors.Take(), "a");
  donors.Leave("a", Why::kFailed, absl::UnavailableError("refused"));
  EXPECT_EQ(donors.Take(), "b");
  donors.Leave("b", Why::kLacksIt, absl::NotFoundError("dropped"));
  EXPECT_EQ(donors.Take(), std::nullopt);
  EXPECT_TRUE(absl::IsAborted(donors.Verdict())) << donors.Verdict();
  EXPECT_NE(donors.Verdict().message().find("donor a: refused"), std::string::npos);
}

TEST(DonorList, SaysNotFoundOnlyIfEveryDonorLacksIt) {
  // Broken: a replica would take a whole snapshot because one donor was busy.
  DonorList donors({"a", "b"});
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(donors.Take(), name);
    donors.Leave(name, Why::kLacksIt, absl::NotFoundError("dropped"));
  }
  EXPECT_TRUE(absl::IsNotFound(donors.Verdict()));
  EXPECT_TRUE(absl::IsUnavailable(DonorList({}).Verdict()));
  DonorList away({"a"});
  EXPECT_EQ(away.Take(), "a");
  away.Leave("a", Why::kFailed, absl::UnavailableError("refused"));
  EXPECT_TRUE(absl::IsUnavailable(away.Verdict()));
}

TEST(DonorList, ForgivesFailuresAfterProgressButNeverLies) {
  // Broken: a long fetch over flapping links would run out of donors; a liar would be asked again.
  DonorList donors({"a", "b", "c"});
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), "b");
  EXPECT_EQ(donors.Take(), "c");
  EXPECT_EQ(donors.Take(), std::nullopt);
  donors.Leave("a", Why::kFailed, absl::UnavailableError("x"));
  donors.Leave("b", Why::kLied, absl::InvalidArgumentError("x"));
  EXPECT_EQ(donors.Take(), std::nullopt);
  donors.Progressed();
  EXPECT_EQ(donors.Take(), std::nullopt) << "dialled again at each block while another gives";
  for (int i = 0; i < 1000; ++i) donors.Progressed();
  EXPECT_EQ(donors.Take(), "a");
  donors.Leave("a", Why::kFailed, absl::UnavailableError("x"));
  donors.Leave("c", Why::kFailed, absl::UnavailableError("x"));
  EXPECT_EQ(donors.Take(), std::nullopt) << "nobody has given anything since";
  donors.AskAgain();
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), "c");
  EXPECT_EQ(donors.Take(), std::nullopt);
}

TEST(DonorList, TakesInWhoComesAndForgetsWhoGoes) {
  // Broken: a joiner could not use the donors that joined meanwhile, or would dial the dead; a liar
  // could come back under a new roster.
  DonorList donors({"a", "liar"});
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), "liar");
  donors.Leave("liar", Why::kLied, absl::InvalidArgumentError("x"));
  donors.Set({"b"});
  EXPECT_EQ(donors.asked(), 1u);
  EXPECT_EQ(donors.Take(), "b");
  donors.Release("a");
  EXPECT_EQ(donors.Take(), std::nullopt);
  donors.Set({"a", "b", "liar"});
  EXPECT_EQ(donors.Take(), "a");
  EXPECT_EQ(donors.Take(), std::nullopt);
}

const absl::Time kStart = absl::UnixEpoch();

TEST(FetchSchedule, AsksEachItemOnceWithinTheWindow) {
  // Broken: donors would send the same blocks, or a joiner would hold a whole snapshot in memory.
  FetchSchedule schedule(0, 100, 6, 4);
  schedule.AddStream(1);
  schedule.AddStream(2);
  std::set<uint64_t> asked;
  for (const int stream : {1, 2, 1, 2, 1, 2, 1, 2}) {
    const auto item = schedule.Ask(stream, kStart);
    if (!item) continue;
    EXPECT_TRUE(asked.insert(*item).second) << *item;
  }
  EXPECT_EQ(asked, (std::set<uint64_t>{0, 1, 2, 3})) << "two ahead until the speed is known";
  EXPECT_EQ(schedule.Owed(1), 0u);
  EXPECT_TRUE(schedule.Took(1, kStart + absl::Seconds(1)));
  while (const auto item = schedule.Ask(1, kStart + absl::Seconds(1))) asked.insert(*item);
  EXPECT_EQ(*asked.rbegin(), 5u) << "item 6 lies beyond the window";
  schedule.Consumed(1);
  EXPECT_EQ(schedule.missing(), 99u);
}

TEST(FetchSchedule, WhatALostDonorOwedGoesToOthers) {
  // Broken: a donor's death would leave a hole that nobody fills.
  FetchSchedule schedule(0, 2, 8, 4);
  schedule.AddStream(1);
  EXPECT_EQ(schedule.Ask(1, kStart), 0u);
  EXPECT_EQ(schedule.Ask(1, kStart), 1u);
  EXPECT_FALSE(schedule.AnyOpen());
  schedule.RemoveStream(1);
  schedule.AddStream(2);
  EXPECT_EQ(schedule.Ask(2, kStart), 0u);
  schedule.Have(1);
  EXPECT_EQ(schedule.Ask(2, kStart), std::nullopt);
  schedule.Lost(1);
  EXPECT_EQ(schedule.Ask(2, kStart), 1u);
}

TEST(FetchSchedule, AnIdleDonorIsAskedForWhatASlowOneOwes) {
  // Broken: one donor that is alive but slow would hold up a whole join; or a small snapshot would
  // be fetched twice.
  FetchSchedule schedule(0, 3, 8, 1);
  schedule.AddStream(1);
  schedule.AddStream(2);
  EXPECT_EQ(schedule.Ask(1, kStart), 0u);
  EXPECT_EQ(schedule.Ask(2, kStart), 1u);
  absl::Time now = kStart + absl::Milliseconds(100);
  EXPECT_TRUE(schedule.Took(2, now));
  EXPECT_EQ(schedule.Ask(2, now), 2u);
  now += absl::Milliseconds(100);
  EXPECT_TRUE(schedule.Took(2, now));
  EXPECT_EQ(schedule.Ask(2, now), std::nullopt) << "the first is not late yet";
  const absl::Time late = schedule.ReconsiderAt();
  EXPECT_EQ(late, kStart + absl::Milliseconds(400));
  EXPECT_EQ(schedule.Ask(2, late), 0u);
  EXPECT_TRUE(schedule.Took(2, late + absl::Milliseconds(100)));
  EXPECT_FALSE(schedule.Took(1, late + absl::Seconds(1))) << "it came a second time";
  EXPECT_EQ(schedule.missing(), 0u);
  EXPECT_EQ(schedule.ReconsiderAt(), absl::InfiniteFuture());
}

TEST(FetchSchedule, ASlowDonorHasFewerRequestsAhead) {
  // Broken: a slow donor would be given as much of the window as a fast one, and hold it up.
  FetchSchedule schedule(0, 1000, 100, 4);
  schedule.AddStream(1);
  schedule.AddStream(2);
  absl::Time now = kStart;
  const auto fill = [&](int stream) {
    int asked = 0;
    while (schedule.Ask(stream, now)) ++asked;
    return asked;
  };
  fill(1);
  fill(2);
  for (int i = 0; i < 10; ++i) {
    now += absl::Milliseconds(10);
    schedule.Took(1, now);
    fill(1);
  }
  now += absl::Milliseconds(900);
  schedule.Took(2, now);
  EXPECT_EQ(fill(2), 0) << "one is still on its way";
  schedule.Took(2, now + absl::Seconds(1));
  EXPECT_EQ(fill(2), 1);
}

}  // namespace
}  // namespace atolld
