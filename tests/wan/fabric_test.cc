// Would fail if packets of the lab took a wrong path, or a time or an order that the lines on their
// path do not give.
#include "tests/wan/fabric.h"

#include <utility>

#include "gtest/gtest.h"

namespace atolld {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// An IP packet of 1,250 bytes (a millisecond at 10 Mbit/s), marked so that it can be recognised.
std::vector<uint8_t> PacketTo(uint32_t address, uint8_t mark) {
  std::vector<uint8_t> frame(kOffloadHeaderBytes + 1250);
  frame[kOffloadHeaderBytes] = 0x45;
  for (size_t i = 0; i < 4; ++i) {
    frame[kOffloadHeaderBytes + 16 + i] = static_cast<uint8_t>(address >> (24 - 8 * i));
  }
  frame.back() = mark;
  return frame;
}

LineSettings Settings(double megabits, int delay_milliseconds) {
  LineSettings settings;
  settings.bits_per_second = megabits * 1e6;
  settings.delay = absl::Milliseconds(delay_milliseconds);
  settings.queue = absl::Milliseconds(100);
  return settings;
}

// Nodes 0, 1 and 2 with a line of their own into one shared line to node 3.
class FabricTest : public testing::Test {
 protected:
  FabricTest() {
    for (uint32_t address = 10; address < 14; ++address) fabric_.AddNode(address);
    const size_t shared = fabric_.AddLine(Settings(10, 20), 1);
    for (size_t node = 0; node < 3; ++node) {
      fabric_.SetPath(node, 3, {fabric_.AddLine(Settings(10, 5), 2 + node), shared});
    }
  }

  struct Arrival {
    size_t node;
    uint8_t mark;
    bool operator==(const Arrival& other) const { return node == other.node && mark == other.mark; }
  };
  std::vector<Arrival> Until(int64_t now) {
    std::vector<Arrival> arrivals;
    fabric_.Advance(now, [&](size_t node, absl::Span<const uint8_t> frame) {
      EXPECT_EQ(kOffloadHeaderBytes + 1250, frame.size());
      arrivals.push_back({node, frame.back()});
    });
    return arrivals;
  }

  Fabric fabric_;
};

TEST_F(FabricTest, APacketTakesTheSumOfItsLines) {
  fabric_.Send(0, 0, PacketTo(13, 1));
  EXPECT_EQ(6 * kMillisecond, fabric_.next_event());
  EXPECT_TRUE(Until(27 * kMillisecond - 1).empty());
  EXPECT_EQ((std::vector<Arrival>{{3, 1}}), Until(27 * kMillisecond));
  EXPECT_FALSE(fabric_.next_event().has_value());
  EXPECT_EQ(0u, fabric_.bytes_under_way());
}

TEST_F(FabricTest, ASharedLineCarriesOneAfterTheOther) {
  for (uint8_t node = 0; node < 3; ++node) fabric_.Send(node, node, PacketTo(13, node));
  EXPECT_EQ((std::vector<Arrival>{{3, 0}, {3, 1}}), Until(28 * kMillisecond + 500));
  EXPECT_EQ((std::vector<Arrival>{{3, 2}}), Until(29 * kMillisecond));
}

TEST_F(FabricTest, ALateCallerDoesNotSlowTheLineDown) {
  fabric_.Send(0, 0, PacketTo(13, 1));
  // Nobody has looked since: it has passed both lines at the times that they take.
  EXPECT_EQ((std::vector<Arrival>{{3, 1}}), Until(27 * kMillisecond));
}

TEST_F(FabricTest, WhatNobodyIsTheDestinationOfIsCounted) {
  fabric_.Send(0, 0, PacketTo(99, 1));
  fabric_.Send(0, 0, PacketTo(11, 1));  // a node, but no path leads there
  fabric_.Send(0, 0, std::vector<uint8_t>(kOffloadHeaderBytes));
  EXPECT_EQ(3u, fabric_.unroutable());
  EXPECT_FALSE(fabric_.next_event().has_value());
}

// Broken: a container's own line would carry nothing to addresses that were not known beforehand.
TEST(FabricElsewhere, WhatNoNodeIsNamedForGoesToTheOtherEnd) {
  Fabric fabric;
  const size_t inside = fabric.AddNode(Fabric::kElsewhere);
  const size_t outside = fabric.AddNode(Fabric::kElsewhere);
  const size_t line = fabric.AddLine(Settings(10, 5), 1);
  fabric.SetPath(inside, outside, {line});
  fabric.SetPath(outside, inside, {line});
  std::vector<size_t> arrived;
  const auto arrive = [&](size_t node, absl::Span<const uint8_t>) { arrived.push_back(node); };
  fabric.Send(0, inside, PacketTo(99, 1));
  fabric.Send(0, outside, PacketTo(98, 1));
  fabric.Advance(10 * kMillisecond, arrive);
  EXPECT_EQ((std::vector<size_t>{outside, inside}), arrived);
  // Cut, it loses what is sent from then on, and counts it.
  fabric.Cut(true);
  fabric.Send(20 * kMillisecond, inside, PacketTo(99, 1));
  EXPECT_FALSE(fabric.next_event().has_value());
  EXPECT_EQ(1u, fabric.cut_off());
  fabric.Cut(false);
  fabric.Send(20 * kMillisecond, inside, PacketTo(99, 1));
  EXPECT_TRUE(fabric.next_event().has_value());
  EXPECT_EQ(0u, fabric.unroutable());
}

TEST_F(FabricTest, ADroppedPacketIsNotUnderWay) {
  for (int i = 0; i < 200; ++i) fabric_.Send(0, 0, PacketTo(13, 1));
  EXPECT_EQ(101 * (kOffloadHeaderBytes + 1250), fabric_.bytes_under_way());
  EXPECT_EQ(101u, Until(1000 * kMillisecond).size());
  EXPECT_EQ(0u, fabric_.bytes_under_way());
  EXPECT_EQ(101 * (kOffloadHeaderBytes + 1250), fabric_.most_bytes_under_way());
}

}  // namespace
}  // namespace atolld
