// One peer of `atoll bench exchange`: a process that exchanges random values on the parent's
// orders.
//
// It reads two kinds of lines from the descriptor `orders`: "peers ADDRESS..." has the addresses of
// all peers in order, with kNoAddress for a peer that cannot be dialled; "go N" starts repetition
// number N, from 1. It ends when the pipe ends. It writes three kinds of lines to standard output:
// "listening ADDRESS", "ready", and "done" with the fields of BenchPeerTimes. Errors go to standard
// error.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace atolld {

inline constexpr char kNoAddress[] = "none";

struct BenchPeerOptions {
  int orders = 0;      // The descriptor from which orders are read.
  uint32_t index = 0;  // The peer's index in the list of peers.
  std::string host = "127.0.0.1";
  uint64_t elements = 0;
  std::string codec;
  std::string upper_codec;  // The codec of means; if empty, `codec`.
  uint32_t chunk_elements = 1;
  int lanes = 1;
  int threads = 1;
  std::string certificates;  // The folder of the peer's credentials; if empty, plain text is used.
};

struct BenchPeerTimes {
  uint64_t repetition = 0;
  double encode_seconds = 0;
  double exchange_seconds = 0;
  double decode_seconds = 0;
  double cpu_seconds = 0;
  uint64_t bytes_sent = 0;
  // The error relative to the exact mean of all peers' values, measured on the first values.
  double relative_error = 0;
  std::string digest;  // The digest of the encoded mean, in hexadecimal.

  std::string Line() const;
  // Parses the result of Line(). Fails with INVALID_ARGUMENT if `line` has another form.
  static absl::StatusOr<BenchPeerTimes> FromLine(absl::string_view line);
};

// Returns the name of a peer in plans and in its certificate.
std::string BenchPeerName(size_t index);

// Runs the peer until the pipe ends. Returns the exit code of the process.
int RunBenchPeer(const BenchPeerOptions& options);

}  // namespace atolld
