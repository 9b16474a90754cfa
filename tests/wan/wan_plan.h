// The text that configures `atoll-wan`: nodes, lines and paths, each on a line of its own.
//
//   seed N                                     of all losses; comes first
//   node NAME NAMESPACE DEVICE ADDRESS         namespace: a path, or "-" for this process's own;
//                                              address: IPv4, or 0.0.0.0 for addresses of no node
//   line NAME BITS_PER_SECOND DELAY QUEUE LOSS durations like 20ms; loss is a share, 0 to 1
//   path FROM TO LINE...                       for what FROM sends to TO
//   go                                         comes last
//
// Names have no spaces, and must be defined before they are used.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tests/wan/fabric.h"

namespace atolld {

class WanPlan {
 public:
  struct Node {
    std::string name;
    std::string namespace_path;
    std::string device;
  };

  // Reads one line of the text. Fails with INVALID_ARGUMENT if the line is wrong; the message says
  // what is wrong.
  absl::Status Read(absl::string_view text);

  bool complete() const { return complete_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  Fabric& fabric() { return fabric_; }

 private:
  absl::Status ReadNode(const std::vector<absl::string_view>& words);
  absl::Status ReadLine(const std::vector<absl::string_view>& words);
  absl::Status ReadPath(const std::vector<absl::string_view>& words);

  bool complete_ = false;
  uint64_t seed_ = 1;
  std::vector<Node> nodes_;
  std::map<std::string, size_t, std::less<>> node_index_;
  std::map<std::string, size_t, std::less<>> line_index_;
  Fabric fabric_;
};

}  // namespace atolld
