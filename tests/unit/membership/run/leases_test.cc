#include "membership/run/leases.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace atolld {
namespace {

v1::SampleRange Range(uint64_t first, uint64_t count) {
  v1::SampleRange range;
  range.set_first(first);
  range.set_count(count);
  return range;
}

std::string Text(const LeaseBook::Ranges& ranges) {
  std::string text;
  for (const auto& range : ranges) {
    text += "[" + std::to_string(range.first()) + "+" + std::to_string(range.count()) + "]";
  }
  return text;
}

// Would break: samples trained on twice, or never again after their holder's death.
TEST(LeaseBook, GrantsReturnedSamplesBeforeFreshOnes) {
  LeaseBook book;
  EXPECT_EQ(Text(book.Grant("a", 10)), "[0+10]");
  EXPECT_EQ(Text(book.Grant("b", 10)), "[10+10]");
  EXPECT_EQ(Text(book.Grant("c", 10)), "[20+10]");
  book.Return("a");
  book.Spend("b");
  EXPECT_EQ(Text(book.Grant("d", 15)), "[0+10][30+5]");
  EXPECT_EQ(Text(book.Held("d")), "[0+10][30+5]");
  book.Return("c");
  EXPECT_EQ(Text(book.Grant("e", 4)), "[20+4]");
  EXPECT_EQ(book.next(), 35u);
  EXPECT_FALSE(book.holds("b"));
}

// Would break: what a peer trains ahead is spent with its update, or is not its own afterwards.
TEST(LeaseBook, HandsOnWhatWasTrainedAhead) {
  LeaseBook book;
  book.Grant("a", 10);
  book.Grant(AheadHolder("a"), 10);
  book.Grant("b", 10);
  book.Spend("a");
  book.Hand(AheadHolder("a"), "a");
  EXPECT_EQ(Text(book.Held("a")), "[10+10]");
  EXPECT_FALSE(book.holds(AheadHolder("a")));
  book.Grant(AheadHolder("a"), 5);
  book.Hand(AheadHolder("a"), "a");
  EXPECT_EQ(Text(book.Held("a")), "[10+10][30+5]");
  book.Hand("nobody", "a");
  EXPECT_EQ(Text(book.Held("a")), "[10+10][30+5]");
  EXPECT_EQ(Text(LeaseBook(book.Save()).Held("b")), "[20+10]");
}

// Would break: a returning peer goes on with samples that somebody else has, or that are spent
// already.
TEST(LeaseBook, AdoptsOnlyWhatIsFreeOrItsOwn) {
  LeaseBook book;
  book.Grant("a", 10);
  book.Grant("b", 10);
  book.Grant("c", 10);
  book.Spend("c");
  EXPECT_TRUE(book.Adopt("a", {Range(0, 10)}));   // its own
  EXPECT_FALSE(book.Adopt("a", {Range(5, 10)}));  // partly another's
  EXPECT_FALSE(book.Adopt("a", {Range(20, 1)}));  // spent
  EXPECT_FALSE(book.Adopt("a", {Range(30, 1)}));  // never leased
  EXPECT_FALSE(book.Adopt("a", {Range(29, UINT64_MAX)}));
  EXPECT_FALSE(book.Adopt("a", {Range(0, 0)}));
  EXPECT_FALSE(book.Adopt("a", {Range(0, 5), Range(4, 2)}));  // twice
  EXPECT_EQ(Text(book.Held("a")), "[0+10]");                  // nothing changed
  book.Return("b");
  EXPECT_TRUE(book.Adopt("a", {Range(8, 4)}));  // across its own and free ones; the rest is free
  EXPECT_EQ(Text(book.Held("a")), "[8+4]");
  EXPECT_EQ(Text(book.Grant("d", 16)), "[0+8][12+8]");
}

// Would break: what an adopted history has used is trained on again, or what it skipped never is.
TEST(LeaseBook, LearnsWhatAHistoryHasSpent) {
  LeaseBook book;
  book.Grant("a", 10);
  book.Grant("b", 10);
  EXPECT_TRUE(book.MarkSpent({Range(30, 10), Range(0, 5), Range(18, 4)}));
  EXPECT_EQ(book.next(), 40u);
  EXPECT_EQ(Text(book.Held("a")), "[5+5]");  // the history knows better than the book
  EXPECT_EQ(Text(book.Held("b")), "[10+8]");
  EXPECT_EQ(Text(book.Held("")), "[22+8]");  // in nobody's hands: returned
  EXPECT_FALSE(book.MarkSpent({Range(40, 5), Range(30, 1)}));
  EXPECT_FALSE(book.MarkSpent({Range(40, 5), Range(44, 2)}));
  EXPECT_FALSE(book.MarkSpent({Range(5, 0)}));
  EXPECT_FALSE(book.MarkSpent({Range(UINT64_MAX, 2)}));
  EXPECT_EQ(book.next(), 40u);  // nothing changed
  EXPECT_EQ(book.Status().spent(), 19u);
  EXPECT_EQ(book.Status().held(), 13u);
  EXPECT_EQ(book.Status().returned(), 8u);
  EXPECT_EQ(book.Status().next(), 40u);
  book.Reach(50);
  book.Reach(45);
  EXPECT_EQ(Text(book.Held("")), "[22+8][40+10]");
  EXPECT_TRUE(book.Adopt("c", {Range(45, 5)}));
  EXPECT_EQ(Text(book.Grant("d", 14)), "[22+8][40+5][50+1]");
}

// Would break: a sample that a missing header may have spent is trained on again, or what later
// headers name cannot be marked.
TEST(LeaseBook, WhatIsLostIsGrantedToNobodyAndMayBeFoundSpent) {
  LeaseBook book;
  book.Grant("a", 10);
  book.Grant("b", 10);
  book.Spend("b");
  book.Return("a");
  book.Lose(30);
  EXPECT_EQ(book.next(), 30u);
  EXPECT_FALSE(book.holds("a"));
  EXPECT_FALSE(book.Adopt("a", {Range(0, 10)}));
  EXPECT_EQ(book.Status().held() + book.Status().returned(), 0u);
  EXPECT_EQ(book.Status().spent(), 10u);
  LeaseBook read(book.Save());  // over a restart
  EXPECT_EQ(Text(read.Grant("a", 5)), "[30+5]");
  EXPECT_TRUE(read.MarkSpent({Range(25, 5), Range(3, 2)}));
  EXPECT_FALSE(read.MarkSpent({Range(29, 1)}));
  EXPECT_FALSE(read.MarkSpent({Range(12, 1)}));  // was spent before
  EXPECT_EQ(Text(read.Grant("b", 1)), "[35+1]");
}

// Would break: exactly-once, under any order of events and through restarts.
TEST(LeaseBook, EverySampleIsFreeHeldOrSpentOnce) {
  std::mt19937_64 random(7);
  LeaseBook book;
  std::map<uint64_t, std::string> model;  // unspent samples: holder, "" free
  uint64_t next = 0;
  const std::vector<std::string> peers = {"a", "b", "c"};
  for (int step = 0; step < 3000; ++step) {
    const std::string& peer = peers[random() % peers.size()];
    switch (random() % 6) {
      case 0:
      case 1:
        for (const auto& range : book.Grant(peer, 1 + random() % 9)) {
          for (uint64_t i = range.first(); i < range.first() + range.count(); ++i) {
            ASSERT_TRUE(i >= next || (model.count(i) == 1 && model[i].empty()));
            model[i] = peer;
          }
        }
        next = book.next();
        break;
      case 2:
        book.Return(peer);
        for (auto& [sample, holder] : model) holder = holder == peer ? "" : holder;
        break;
      case 3:
        book.Spend(peer);
        for (auto it = model.begin(); it != model.end();)
          it = it->second == peer ? model.erase(it) : std::next(it);
        break;
      case 4: {
        if (next == 0) break;
        const uint64_t first = random() % next;
        const uint64_t count = 1 + random() % 6;
        bool allowed = first + count <= next;
        for (uint64_t i = first; i < first + count; ++i) {
          allowed = allowed && model.count(i) == 1 && (model[i].empty() || model[i] == peer);
        }
        ASSERT_EQ(book.Adopt(peer, {Range(first, count)}), allowed);
        if (!allowed) break;
        for (auto& [sample, holder] : model) holder = holder == peer ? "" : holder;
        for (uint64_t i = first; i < first + count; ++i) model[i] = peer;
        break;
      }
      case 5: {
        const uint64_t first = random() % (next + 4);
        const uint64_t count = 1 + random() % 3;
        bool allowed = true;
        for (uint64_t i = first; i < first + count && i < next; ++i) {
          allowed = allowed && model.count(i) == 1;
        }
        ASSERT_EQ(book.MarkSpent({Range(first, count)}), allowed);
        if (!allowed) break;
        for (; next < first + count; ++next) model[next] = "";
        for (uint64_t i = first; i < first + count; ++i) model.erase(i);
        break;
      }
    }
    if (step % 10 == 0) book = LeaseBook(book.Save());
    size_t unspent = 0;
    uint64_t end = 0;
    for (const LeaseRecord& record : book.Save().ranges) {
      ASSERT_GE(record.first, end);
      end = record.first + record.count;
      unspent += record.count;
      for (uint64_t i = record.first; i < end; ++i) ASSERT_EQ(model.at(i), record.holder);
    }
    ASSERT_EQ(unspent, model.size());
  }
}

}  // namespace
}  // namespace atolld
