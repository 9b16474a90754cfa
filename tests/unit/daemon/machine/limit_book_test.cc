// Would break: what an owner sets is lost, changes half, or is taken for something else.
#include "daemon/machine/limit_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::Limit Find(LimitBook& book, const std::string& key) {
  for (const v1::Limit& limit : book.List()) {
    if (limit.key() == key) return limit;
  }
  ADD_FAILURE() << key;
  return {};
}

TEST(LimitBookTest, WhatIsSetPrecedesTheConfigAndIsKept) {
  MachineConfig configured;
  configured.others_above = 30;
  LimitBook book(configured);
  EXPECT_EQ(Find(book, "others_above").from(), "config");
  EXPECT_EQ(Find(book, "hours").from(), "default");
  ASSERT_TRUE(book.Set({{"hours", "mon-fri 18:00-08:00, sat-sun"},
                        {"up_cap", "\"10Mbit\""},
                        {"on_battery", "false"},
                        {"memory_floor", "2GB"},
                        {"disk_floor", "1000"},
                        {"in_use", "5m"},
                        {"others_above", "25"}},
                       false)
                  .ok());
  ASSERT_TRUE(book.Set({{"hotter_than", "80"}}, true).ok());
  const MachineConfig& now = book.limits();
  EXPECT_EQ(now.hours, "mon-fri 18:00-08:00, sat-sun");
  EXPECT_EQ(now.up_cap, 1250000u);
  EXPECT_FALSE(now.on_battery);
  EXPECT_EQ(now.memory_floor, 2000000000u);
  EXPECT_EQ(now.disk_floor, 1000u);
  EXPECT_EQ(now.in_use, absl::Minutes(5));
  EXPECT_EQ(now.others_above, 25);
  EXPECT_EQ(Find(book, "others_above").from(), "set");
  EXPECT_EQ(Find(book, "hotter_than").from(), "set");

  LimitBook next(configured);  // after a restart
  ASSERT_TRUE(next.Load(book.Kept()).ok()) << book.Kept();
  EXPECT_EQ(next.limits().hours, now.hours);
  EXPECT_EQ(next.limits().up_cap, now.up_cap);
  EXPECT_EQ(next.limits().in_use, now.in_use);
  EXPECT_EQ(next.limits().memory_floor, now.memory_floor);
  EXPECT_FALSE(next.limits().on_battery);
  EXPECT_EQ(next.limits().hotter_than, 0) << "it was until the restart";
  EXPECT_EQ(next.Kept(), book.Kept());
}

TEST(LimitBookTest, AConfigThatIsReadAgainHoldsWhereNothingWasSet) {
  MachineConfig configured;
  configured.others_above = 30;
  configured.hotter_than = 70;
  LimitBook book(configured);
  ASSERT_TRUE(book.Set({{"others_above", "25"}, {"hours", "mon-fri 18:00-08:00"}}, false).ok());
  ASSERT_TRUE(book.Set({{"up_cap", "8Mbit"}}, true).ok());
  const std::string kept = book.Kept();

  MachineConfig changed;  // without hotter_than
  changed.others_above = 60;
  changed.hours = "sat-sun";
  changed.up_cap = 5;
  changed.down_cap = 2000;
  changed.in_use = absl::Minutes(2);
  book.Configure(changed);
  EXPECT_EQ(book.limits().others_above, 25);
  EXPECT_EQ(book.limits().hours, "mon-fri 18:00-08:00");
  EXPECT_EQ(book.limits().up_cap, 1000000u) << "what was set until the restart, too";
  EXPECT_EQ(book.limits().down_cap, 2000u);
  EXPECT_EQ(book.limits().in_use, absl::Minutes(2));
  EXPECT_EQ(book.limits().hotter_than, 0);
  EXPECT_EQ(Find(book, "others_above").from(), "set");
  EXPECT_EQ(Find(book, "down_cap").from(), "config");
  EXPECT_EQ(Find(book, "hotter_than").from(), "default");
  EXPECT_EQ(book.Kept(), kept) << "the file of what was set is not the config's";
}

TEST(LimitBookTest, AWrongOneChangesNothingAndIsNamed) {
  LimitBook book(MachineConfig{});
  absl::Status status = book.Set({{"hotter_than", "80"}, {"hour", "18:00-08:00"}}, false);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "there is no limit 'hour'; the nearest is 'hours'");
  EXPECT_EQ(book.limits().hotter_than, 0);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"hours", "9am"},
                                                        {"others_above", "lots"},
                                                        {"on_battery", "no"},
                                                        {"in_use", "5"},
                                                        {"up_cap", "fast"},
                                                        {"memory_floor", "-1"},
                                                        {"charge_below", "101"}}) {
    status = book.Set({{key, value}}, false);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << key;
    EXPECT_THAT(std::string(status.message()), HasSubstr(key));
  }
  LimitBook next(MachineConfig{});
  status = next.Load("[machine]\nhours = \"\"\nothers_above = lots\n");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 3"));
}

}  // namespace
}  // namespace atolld
