// Fabric: all lines of the lab's network, the paths over them, and the packets under way.
//
// A packet that a node sends goes over the lines of the path to the node that has its destination
// address, one after the other, and is handed out at the moment at which it has passed the last.
// Lines may be shared by many paths: they are served in the order of time. A frame of many segments
// is split first, so that no line is busy with one piece for long, and where packets get lost every
// segment is alone. The caller brings the clock and does the I/O, so the same sends at the same
// times give the same arrivals. One thread.
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
  // The frame has arrived at the node; it is borrowed for the call.
  using Deliver = std::function<void(size_t node, absl::Span<const uint8_t> frame)>;

  // Building: all of it before the first Send. Indices count from 0 in the order of the calls;
  // `address` is IPv4 in the host's byte order; kElsewhere: whatever no other node has, of which
  // the first node takes it that is not the sender. Without a path nothing gets from one to the
  // other.
  static constexpr uint32_t kElsewhere = 0;
  size_t AddNode(uint32_t address);
  size_t AddLine(LineSettings settings, uint64_t seed);
  void SetPath(size_t from, size_t to, std::vector<size_t> lines);

  // A node has sent a frame. Frames that no node is the destination of are counted and forgotten.
  void Send(int64_t now, size_t from, absl::Span<const uint8_t> frame);

  // While it is cut, all that is sent is lost; what is under way arrives.
  void Cut(bool cut) { cut_ = cut; }
  uint64_t cut_off() const { return cut_off_; }

  // Hands out, in order, what has arrived until `now`.
  void Advance(int64_t now, const Deliver& deliver);

  // When Advance has something to do; nothing while no packet is under way.
  std::optional<int64_t> next_event() const;

  const std::vector<Line>& lines() const { return lines_; }
  uint64_t unroutable() const { return unroutable_; }
  size_t bytes_under_way() const { return bytes_under_way_; }
  size_t most_bytes_under_way() const { return most_bytes_under_way_; }

 private:
  struct Path {
    std::vector<size_t> lines;
    uint64_t segments = 1;  // that may travel as one frame
  };
  struct Event {
    int64_t at = 0;
    uint64_t order = 0;  // of two at the same time the older goes first
    size_t to = 0;
    const Path* path = nullptr;
    size_t hop = 0;  // the line that it has passed at `at`
    PacketSize size;
    std::vector<uint8_t> frame;
  };
  static bool Later(const Event& a, const Event& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  // Where a frame goes that `from` has sent; nothing: nowhere.
  std::optional<size_t> DestinationNode(size_t from, absl::Span<const uint8_t> frame) const;

  // Over the line of event.hop; the packet is gone if the line drops it.
  void Enter(int64_t now, Event event);

  std::vector<Line> lines_;
  std::vector<std::vector<Path>> paths_;         // [from][to]
  absl::flat_hash_map<uint32_t, size_t> nodes_;  // by address
  std::vector<size_t> elsewhere_;                // those of no address
  bool cut_ = false;

  std::vector<Event> events_;  // a heap, the next one at the front
  uint64_t order_ = 0;
  uint64_t unroutable_ = 0;
  uint64_t cut_off_ = 0;
  size_t bytes_under_way_ = 0;
  size_t most_bytes_under_way_ = 0;
};

}  // namespace atolld
