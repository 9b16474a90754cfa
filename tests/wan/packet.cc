#include "tests/wan/packet.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace atolld {
namespace {

// struct virtio_net_hdr, in the host's byte order; the kernel's own header for it is not C++.
struct OffloadHeader {
  uint8_t flags;
  uint8_t segmentation;  // 0: one segment
  uint16_t header_bytes;
  uint16_t segment_bytes;
  uint16_t checksum_start;
  uint16_t checksum_offset;
};
static_assert(sizeof(OffloadHeader) == kOffloadHeaderBytes);

// Offsets in an IPv4 header, RFC 791.
constexpr size_t kIpLength = 2;
constexpr size_t kIpIdentification = 4;
constexpr size_t kIpProtocol = 9;
constexpr size_t kIpChecksum = 10;
constexpr size_t kIpSource = 12;
constexpr size_t kIpDestination = 16;
constexpr size_t kSmallestIpHeader = 20;
constexpr uint8_t kTcp = 6;

// Offsets in a TCP header, RFC 9293.
constexpr size_t kTcpSequence = 4;
constexpr size_t kTcpDataOffset = 12;
constexpr size_t kTcpFlags = 13;
constexpr size_t kTcpChecksum = 16;
constexpr size_t kSmallestTcpHeader = 20;
constexpr uint8_t kLastSegmentFlags = 0x01 | 0x08;  // FIN, PSH
constexpr uint8_t kFirstSegmentFlags = 0x80;        // CWR

uint32_t Load(const uint8_t* data, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | data[i];
  return value;
}

void Store(uint8_t* data, size_t bytes, uint32_t value) {
  for (size_t i = bytes; i-- > 0; value >>= 8) data[i] = static_cast<uint8_t>(value);
}

// Returns the Internet checksum's sum (RFC 1071) of an even number of bytes, added to `sum`.
uint32_t Sum(const uint8_t* data, size_t bytes, uint32_t sum) {
  for (size_t i = 0; i < bytes; i += 2) sum += Load(data + i, 2);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

// The layout of a frame of TCP segments; segment_bytes is 0 for a frame of a single packet.
struct Segments {
  size_t ip_header = 0;
  size_t headers = 0;
  size_t data = 0;
  size_t segment_bytes = 0;
};

Segments SegmentsOf(absl::Span<const uint8_t> frame) {
  OffloadHeader offload;
  std::memcpy(&offload, frame.data(), sizeof offload);
  const absl::Span<const uint8_t> ip = frame.subspan(kOffloadHeaderBytes);
  Segments found;
  if (offload.segmentation == 0 || offload.segment_bytes == 0) return found;
  // header_bytes is only a hint of how much of the packet was contiguous: the headers say it
  // themselves, in words of four bytes.
  found.ip_header = (ip[0] & 0xfu) * 4;
  if (ip[kIpProtocol] != kTcp || ip.size() < found.ip_header + kSmallestTcpHeader) return found;
  found.headers = found.ip_header + (ip[found.ip_header + kTcpDataOffset] >> 4) * 4u;
  if (found.headers < found.ip_header + kSmallestTcpHeader || ip.size() <= found.headers) {
    return found;
  }
  found.data = ip.size() - found.headers;
  found.segment_bytes = offload.segment_bytes;
  return found;
}

// Adapts the copied headers of a piece to its `data` bytes, which begin at `offset`.
void Rewrite(const Segments& whole, size_t offset, size_t data, uint8_t* frame) {
  OffloadHeader offload;
  std::memcpy(&offload, frame, sizeof offload);
  offload.header_bytes = static_cast<uint16_t>(whole.headers);
  if (data <= whole.segment_bytes) offload.segmentation = 0;
  if (data <= whole.segment_bytes) offload.segment_bytes = 0;
  std::memcpy(frame, &offload, sizeof offload);

  uint8_t* const ip = frame + kOffloadHeaderBytes;
  const uint32_t before = static_cast<uint32_t>(offset / whole.segment_bytes);
  Store(ip + kIpLength, 2, static_cast<uint32_t>(whole.headers + data));
  Store(ip + kIpIdentification, 2, Load(ip + kIpIdentification, 2) + before);
  Store(ip + kIpChecksum, 2, 0);
  Store(ip + kIpChecksum, 2, ~Sum(ip, whole.ip_header, 0));

  uint8_t* const tcp = ip + whole.ip_header;
  Store(tcp + kTcpSequence, 4, Load(tcp + kTcpSequence, 4) + static_cast<uint32_t>(offset));
  if (offset > 0) tcp[kTcpFlags] &= static_cast<uint8_t>(~kFirstSegmentFlags);
  if (offset + data < whole.data) tcp[kTcpFlags] &= static_cast<uint8_t>(~kLastSegmentFlags);
  // With the checksum left to the device, its field holds the pseudo header's sum.
  const uint32_t length = static_cast<uint32_t>(whole.headers - whole.ip_header + data);
  Store(tcp + kTcpChecksum, 2, Sum(ip + kIpSource, 8, kTcp + length));
}

}  // namespace

std::optional<uint32_t> DestinationOf(absl::Span<const uint8_t> frame) {
  if (frame.size() < kOffloadHeaderBytes + kSmallestIpHeader) return std::nullopt;
  const absl::Span<const uint8_t> ip = frame.subspan(kOffloadHeaderBytes);
  if (ip[0] >> 4 != 4) return std::nullopt;
  return Load(ip.data() + kIpDestination, 4);
}

PacketSize SizeOf(absl::Span<const uint8_t> frame) {
  PacketSize size;
  size.bytes = frame.size() - kOffloadHeaderBytes;
  const Segments whole = SegmentsOf(frame);
  if (whole.segment_bytes == 0) return size;
  size.segments = (whole.data + whole.segment_bytes - 1) / whole.segment_bytes;
  size.bytes = whole.data + size.segments * whole.headers;
  return size;
}

std::vector<std::vector<uint8_t>> Split(absl::Span<const uint8_t> frame, uint64_t segments) {
  const Segments whole = SegmentsOf(frame);
  const size_t piece = whole.segment_bytes * segments;
  if (piece == 0 || whole.data <= piece) return {{frame.begin(), frame.end()}};
  const size_t headers = kOffloadHeaderBytes + whole.headers;
  std::vector<std::vector<uint8_t>> pieces;
  for (size_t offset = 0; offset < whole.data; offset += piece) {
    const size_t data = std::min(piece, whole.data - offset);
    std::vector<uint8_t> one;
    one.reserve(headers + data);
    one.insert(one.end(), frame.begin(), frame.begin() + headers);
    const auto begin = frame.begin() + headers + offset;
    one.insert(one.end(), begin, begin + data);
    Rewrite(whole, offset, data, one.data());
    pieces.push_back(std::move(one));
  }
  return pieces;
}

}  // namespace atolld
