// Reads the parts of a frame that the lab's network needs: its destination, and its size on a line.
//
// A frame has the form in which a TUN device with IFF_VNET_HDR delivers it: the kernel's offload
// header (virtio_net_hdr, 10 bytes), then an IP packet. With segmentation offload the packet may
// contain many segments of one TCP stream; on a line each segment has its own IP and TCP header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace atolld {

inline constexpr size_t kOffloadHeaderBytes = 10;

// The largest frame: an IP packet has at most 65,535 bytes.
inline constexpr size_t kLargestFrame = kOffloadHeaderBytes + 65535;

struct PacketSize {
  uint64_t bytes = 0;  // the bytes of IP packets, with the headers of all segments
  uint64_t segments = 1;
};

// Returns the IPv4 destination in the host's byte order; nullopt for any other protocol or a short
// frame.
std::optional<uint32_t> DestinationOf(absl::Span<const uint8_t> frame);

// Requires that DestinationOf(frame) is not nullopt.
PacketSize SizeOf(absl::Span<const uint8_t> frame);

// Returns the same segments, in order, in frames of at most `segments` segments each. `segments`
// must be at least 1.
std::vector<std::vector<uint8_t>> Split(absl::Span<const uint8_t> frame, uint64_t segments);

}  // namespace atolld
