#include "membership/planning/link_status.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace atolld {
namespace {

PeerLink LineOf(const std::string& name, size_t region, double up, double down) {
  PeerLink line;
  line.name = name;
  line.region = region;
  line.up = up;
  line.down = down;
  return line;
}

// An exchange in which `a` of eu sends to `b` of us at 2 MB/s for one second.
v1::Arrivals ArrivalsAtUs() {
  v1::Arrivals arrivals;
  arrivals.set_slot_microseconds(128000);
  v1::ArrivalsFrom* from = arrivals.add_from();
  from->set_peer("a");
  for (int i = 0; i < 8; ++i) from->add_bytes(256000);
  return arrivals;
}

// Would break: what lies between two regions is shown as wider than the link that was seen to
// limit, or than all the lines at its ends; or the way back as the way there.
TEST(LinkStatus, APlanCountsOnTheLeastOfLinesAndLink) {
  LinkModel model;
  const size_t eu = model.AddRegion("eu");
  const size_t us = model.AddRegion("us");
  const size_t alone = model.AddRegion("", false);
  model.AddPeer(LineOf("a", eu, 10e6, 20e6));
  model.AddPeer(LineOf("c", eu, 10e6, 20e6));
  model.AddPeer(LineOf("b", us, 5e6, 50e6));
  model.AddPeer(LineOf("d", alone, 1e6, 1e6));
  model.AddLink(eu, us, 1e15, 3e6, absl::Milliseconds(80));
  model.AddLink(eu, alone, 1e15, 1e15, absl::Milliseconds(1));
  model.AddLink(us, alone, 1e15, 1e15, absl::Milliseconds(1));
  model.ConnectDirectly();
  const std::vector<v1::LinkStatus> counted = CountedOn(model);
  ASSERT_EQ(counted.size(), 3u);
  LinkEstimates estimates;
  const v1::Arrivals at_us = ArrivalsAtUs();
  const v1::Arrivals none = [] {
    v1::Arrivals arrivals;
    arrivals.set_slot_microseconds(128000);
    return arrivals;
  }();
  ASSERT_TRUE(estimates.Note(std::vector<ExchangeWitness>{{"a", "eu", &none}, {"b", "us", &at_us}},
                             1e5, 1e5));
  const std::vector<v1::LinkStatus> links = LinksToTell(counted, estimates);
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(links[0].from() + ">" + links[0].to(), "eu>us");  // the slowest, as it was measured
  EXPECT_EQ(links[0].predicted_bytes_per_second(), 20e6);     // both lines up
  EXPECT_NEAR(links[0].measured_bytes_per_second(), 2e6, 1e3);
  EXPECT_NEAR(links[0].seconds(), 0.04, 1e-6);
  EXPECT_EQ(links[1].from() + ">" + links[1].to(), "us>eu");
  EXPECT_EQ(links[1].predicted_bytes_per_second(), 3e6);  // the link
  EXPECT_EQ(links[1].measured_bytes_per_second(), 0);     // nothing came that way
  EXPECT_EQ(links[2].from() + ">" + links[2].to(), "eu>eu");
  EXPECT_EQ(links[2].predicted_bytes_per_second(), 20e6);
}

// Would break: a run of dozens of regions fills every status with thousands of links.
TEST(LinkStatus, OnlyTheSlowestAreTold) {
  std::vector<v1::LinkStatus> many;
  for (int i = 0; i < 200; ++i) {
    v1::LinkStatus& link = many.emplace_back();
    link.set_from("a");
    link.set_to("b");
    link.set_predicted_bytes_per_second(1e6 + 1e3 * ((i * 37) % 200));
  }
  many[5].set_predicted_bytes_per_second(0);  // unknown
  const std::vector<v1::LinkStatus> told = LinksToTell(many, LinkEstimates());
  ASSERT_EQ(told.size(), kMostLinksTold);
  EXPECT_EQ(told.front().predicted_bytes_per_second(), 1e6);
  EXPECT_LT(told.back().predicted_bytes_per_second(), 1.06e6);
}

}  // namespace
}  // namespace atolld
