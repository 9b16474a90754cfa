// Would fail if a frame of many segments were counted wrongly, or if its pieces were not the
// segments that the kernel meant.
#include "tests/wan/packet.h"

#include <numeric>

#include "gtest/gtest.h"

namespace atolld {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kHeaders = 20 + 32;  // IP, TCP with time stamps
constexpr size_t kSegment = 1448;

uint32_t Big(const Bytes& frame, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | frame.at(at + i);
  return value;
}

// 10.77.1.2 to 10.77.3.4, sequence number 0xfffffff0, flags CWR, ACK, PSH, FIN.
Bytes TcpFrame(size_t data, uint16_t segment_bytes) {
  Bytes frame(kOffloadHeaderBytes + kHeaders + data);
  frame[0] = 1;  // the checksum is left to the device
  frame[1] = segment_bytes > 0 ? 1 : 0;
  frame[4] = static_cast<uint8_t>(segment_bytes & 0xff);
  frame[5] = static_cast<uint8_t>(segment_bytes >> 8);
  const size_t length = kHeaders + data;
  const Bytes ip = {0x45,
                    0,
                    static_cast<uint8_t>(length >> 8),
                    static_cast<uint8_t>(length),
                    0,
                    99,
                    0x40,
                    0,
                    64,
                    6,
                    0,
                    0,
                    10,
                    77,
                    1,
                    2,
                    10,
                    77,
                    3,
                    4};
  std::copy(ip.begin(), ip.end(), frame.begin() + kOffloadHeaderBytes);
  uint8_t* tcp = frame.data() + kOffloadHeaderBytes + 20;
  tcp[4] = tcp[5] = tcp[6] = 0xff;
  tcp[7] = 0xf0;
  tcp[12] = 0x80;  // 32 bytes
  tcp[13] = 0x99;
  uint8_t* payload = frame.data() + kOffloadHeaderBytes + kHeaders;
  for (size_t i = 0; i < data; ++i) payload[i] = static_cast<uint8_t>(i * 7 % 251);
  return frame;
}

TEST(PacketTest, KnowsTheDestination) {
  EXPECT_EQ(0x0a4d0304u, DestinationOf(TcpFrame(100, 0)));
  Bytes six = TcpFrame(100, 0);
  six[kOffloadHeaderBytes] = 0x60;
  EXPECT_FALSE(DestinationOf(six).has_value());
  EXPECT_FALSE(DestinationOf(Bytes(kOffloadHeaderBytes + 19)).has_value());
}

TEST(PacketTest, CountsTheHeadersOfEachSegment) {
  EXPECT_EQ(kHeaders + 100, SizeOf(TcpFrame(100, 0)).bytes);
  EXPECT_EQ(1u, SizeOf(TcpFrame(100, 0)).segments);
  const PacketSize size = SizeOf(TcpFrame(10 * kSegment + 1, kSegment));
  EXPECT_EQ(11u, size.segments);
  EXPECT_EQ(10 * kSegment + 1 + 11 * kHeaders, size.bytes);
}

TEST(PacketTest, AShortOrStrangeFrameIsOnePacket) {
  Bytes cut = TcpFrame(0, kSegment);
  cut.resize(kOffloadHeaderBytes + 30);
  EXPECT_EQ(1u, SizeOf(cut).segments);
  Bytes overlapping = TcpFrame(4000, kSegment);
  overlapping[kOffloadHeaderBytes + 20 + 12] = 0x10;  // its data would begin within its header
  EXPECT_EQ(1u, Split(overlapping, 1).size());
  Bytes udp = TcpFrame(4000, kSegment);
  udp[kOffloadHeaderBytes + 9] = 17;
  EXPECT_EQ(1u, SizeOf(udp).segments);
  EXPECT_EQ(1u, Split(udp, 1).size());
}

TEST(PacketTest, PiecesHoldTheSameSegments) {
  const Bytes frame = TcpFrame(7 * kSegment + 5, kSegment);
  for (const uint64_t at_once : {1, 3}) {
    const std::vector<Bytes> pieces = Split(frame, at_once);
    ASSERT_EQ(at_once == 1 ? 8u : 3u, pieces.size());
    Bytes data;
    uint64_t segments = 0;
    for (const Bytes& piece : pieces) {
      const uint8_t flags = piece.at(kOffloadHeaderBytes + 20 + 13);
      const bool first = &piece == &pieces.front();
      const bool last = &piece == &pieces.back();
      EXPECT_EQ(0x10 | (first ? 0x80 : 0) | (last ? 0x09 : 0), flags);
      // Sequence numbers go round.
      EXPECT_EQ(static_cast<uint32_t>(0xfffffff0u + data.size()),
                Big(piece, kOffloadHeaderBytes + 20 + 4, 4));
      EXPECT_EQ(99 + segments, Big(piece, kOffloadHeaderBytes + 4, 2));
      EXPECT_EQ(piece.size() - kOffloadHeaderBytes, Big(piece, kOffloadHeaderBytes + 2, 2));
      EXPECT_EQ(0x0a4d0304u, DestinationOf(piece));
      segments += SizeOf(piece).segments;
      EXPECT_LE(SizeOf(piece).segments, at_once);
      data.insert(data.end(), piece.begin() + kOffloadHeaderBytes + kHeaders, piece.end());
    }
    EXPECT_EQ(SizeOf(frame).segments, segments);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), frame.begin() + kOffloadHeaderBytes + kHeaders,
                           frame.end()));
  }
}

TEST(PacketTest, PiecesHaveRightChecksums) {
  for (const Bytes& piece : Split(TcpFrame(3 * kSegment, kSegment), 2)) {
    uint32_t sum = 0;
    for (size_t i = 0; i < 20; i += 2) sum += Big(piece, kOffloadHeaderBytes + i, 2);
    EXPECT_EQ(0xffffu, (sum & 0xffff) + (sum >> 16));
    // The pseudo header: addresses, protocol, length.
    const uint32_t length = static_cast<uint32_t>(piece.size() - kOffloadHeaderBytes - 20);
    uint32_t pseudo = 0x0a4d + 0x0102 + 0x0a4d + 0x0304 + 6 + length;
    pseudo = (pseudo & 0xffff) + (pseudo >> 16);
    EXPECT_EQ(pseudo, Big(piece, kOffloadHeaderBytes + 20 + 16, 2));
  }
}

TEST(PacketTest, AFrameThatIsSmallEnoughStaysAsItIs) {
  const Bytes frame = TcpFrame(3 * kSegment, kSegment);
  EXPECT_EQ(std::vector<Bytes>{frame}, Split(frame, 3));
  const Bytes single = TcpFrame(100, 0);
  EXPECT_EQ(std::vector<Bytes>{single}, Split(single, 1));
}

}  // namespace
}  // namespace atolld
