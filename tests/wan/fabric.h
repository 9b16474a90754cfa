// Fabric: the lab's network, with all its lines, the paths over them, and the packets under way.
//
// A packet passes the lines of the path from its sender to the node with its destination address,
// one after another, and is delivered when it has passed the last line. Lines may be shared by many
// paths; they serve packets in the order of time. A frame of many segments is split first, so that
// one frame does not occupy a line for long; on a path with losses every segment is sent alone. The
// caller provides the clock and does the I/O, so the same sends at the same times give the same
// arrivals. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "tests/wan/line.h"
#include "tests/wan/packet.h"

namespace atolld {

class Fabric {
 public:
  // Called when the frame has arrived at the node; the frame is valid during the call.
  using Deliver = std::function<void(size_t node, absl::Span<const uint8_t> frame)>;

  // The functions below build the network and must be called before the first Send. Indices count
  // from 0 in the order of the calls. `address` is IPv4 in the host's byte order. If no node's
  // address matches a packet, the first node with kElsewhere that is not the sender receives it.
  // Without a path, no packet gets from one node to another.
  static constexpr uint32_t kElsewhere = 0;
  size_t AddNode(uint32_t address);
  size_t AddLine(LineSettings settings, uint64_t seed);
  void SetPath(size_t from, size_t to, std::vector<size_t> lines);

  // Called when a node has sent a frame. Frames without a destination node are counted and dropped.
  void Send(int64_t now, size_t from, absl::Span<const uint8_t> frame);

  // Cuts the network or mends it. While it is cut, every frame that is sent is lost; packets under
  // way still arrive.
  void Cut(bool cut) { cut_ = cut; }
  uint64_t cut_off() const { return cut_off_; }

  // Delivers, in order, the packets that have arrived by `now`.
  void Advance(int64_t now, const Deliver& deliver);

  // Returns when Advance will have something to do; nullopt while no packet is under way.
  std::optional<int64_t> next_event() const;

  const std::vector<Line>& lines() const { return lines_; }
  uint64_t unroutable() const { return unroutable_; }
  size_t bytes_under_way() const { return bytes_under_way_; }
  size_t most_bytes_under_way() const { return most_bytes_under_way_; }

 private:
  struct Path {
    std::vector<size_t> lines;
    uint64_t segments = 1;  // how many segments may travel as one frame
  };
  struct Event {
    int64_t at = 0;
    uint64_t order = 0;  // the older of two events at the same time comes first
    size_t to = 0;
    const Path* path = nullptr;
    size_t hop = 0;  // the line that the packet has passed at `at`
    PacketSize size;
    std::vector<uint8_t> frame;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  // Returns the node to which a frame from `from` goes; nullopt if there is none.
  std::optional<size_t> DestinationNode(size_t from, absl::Span<const uint8_t> frame) const;

  // Sends the packet over the line of event.hop; the line may drop it.
  void Enter(int64_t now, Event event);

  std::vector<Line> lines_;
  std::vector<std::vector<Path>> paths_;         // the indices are [from][to]
  absl::flat_hash_map<uint32_t, size_t> nodes_;  // by address
  std::vector<size_t> elsewhere_;                // the nodes with kElsewhere
  bool cut_ = false;

  std::vector<Event> events_;  // a heap with the next event at the front
  uint64_t order_ = 0;
  uint64_t unroutable_ = 0;
  uint64_t cut_off_ = 0;
  size_t bytes_under_way_ = 0;
  size_t most_bytes_under_way_ = 0;
};

}  // namespace atolld
