// One peer of `atoll bench exchange`: a process that exchanges drawn values when it is told to.
//
// Lines that it reads from descriptor `orders`: "peers ADDRESS...", all of them in their order,
// kNoAddress for one that nobody can dial; "go N", for the repetition N from 1; the end of the pipe
// ends it. Lines that it writes to standard output: "listening ADDRESS"; "ready"; "done" and the
// fields of BenchPeerTimes. What goes wrong is said on standard error.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr char kNoAddress[] = "none";

struct BenchPeerOptions {
  int orders = 0;      // descriptor
  uint32_t index = 0;  // in the list of peers
  std::string host = "127.0.0.1";
  uint64_t elements = 0;
  std::string codec;
  std::string upper_codec;  // of means; empty: codec
  uint32_t chunk_elements = 1;
  int lanes = 1;
  int threads = 1;
  std::string certificates;  // folder of its credentials; empty: plain text
};

struct BenchPeerTimes {
  uint64_t repetition = 0;
  double encode_seconds = 0;
  double exchange_seconds = 0;
  double decode_seconds = 0;
  double cpu_seconds = 0;
  uint64_t bytes_sent = 0;
  double relative_error = 0;  // against the mean of all peers' values, over the first of them
  std::string digest;         // hex, of the mean's encoded bytes

  std::string Line() const;
  // INVALID_ARGUMENT: not such a line.
  static absl::StatusOr<BenchPeerTimes> FromLine(absl::string_view line);
};

// The peer's name in plans and in its certificate.
std::string BenchPeerName(size_t index);

// Returns the process's exit code.
int RunBenchPeer(const BenchPeerOptions& options);

}  // namespace atolld
