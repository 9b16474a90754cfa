// `atoll bench exchange`: measures the time in which peers compute the mean of their values. Each
// peer is a process of its own.
//
// The parent process starts the peers, sends each of them the addresses of the others, and starts
// every repetition. It communicates with the peers by lines of text over pipes, so that only the
// exchange uses the network. A repetition lasts from its start until the last peer has the decoded
// mean. It includes encoding, exchange, hashing for the vote, and decoding, but neither disk nor
// coordinator. Its calls block. Used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace atolld {

struct ExchangeBenchOptions {
  int peers = 4;
  uint64_t elements = 16 << 20;
  std::string codec = "int8";
  std::string upper_codec;  // The codec of means; if empty, `codec`.
  uint32_t chunk_elements = 65536;
  int lanes = 1;  // The number of connections between two peers in each direction.
  // If false, peers use mutual TLS, with certificates made for the benchmark.
  bool plaintext = false;
  int repeats = 9;  // The number of repetitions, after a first one that is not counted.
  // The pause without traffic before each repetition, which imitates a training.
  double pause_seconds = 0;
  // The number of threads of each peer's pool; 0 means its share of the processors.
  int threads = 0;
  std::vector<std::string> hosts;  // The host on which each peer listens; if empty, 127.0.0.1.
  // False for each peer that cannot be dialled and is therefore no reducer. If empty, all peers can
  // be dialled.
  std::vector<bool> reachable;
  // The names that replace "{name}" in `launcher`; if empty, the peers' numbers.
  std::vector<std::string> names;
  // Words that precede each peer's command. In them "{peer}" is replaced by the peer's number, from
  // 1.
  std::vector<std::string> launcher;
  absl::Duration patience = absl::Minutes(1);  // The longest time for one repetition.
};

struct ExchangeBenchResult {
  std::vector<double> seconds;  // The time of each repetition.
  double seconds_median = 0;
  // The median over the repetitions of the slowest peer's encoding; the next two members are the
  // same for exchange and decoding.
  double encode_seconds = 0;
  double exchange_seconds = 0;
  double decode_seconds = 0;
  double bytes_sent_per_peer = 0;   // The bytes sent in one repetition, as the mean over the peers.
  double cpu_seconds_per_peer = 0;  // The CPU time of one repetition, as the mean over the peers.
  // The CPU time of each peer, as the median over the repetitions.
  std::vector<double> cpu_seconds;
  // The share of all cores' time that all programs on this machine used together, as the median
  // over the repetitions; negative if unknown.
  double machine_busy = -1;
  // The relative error of the mean in the L2 norm, at the peer where it is largest.
  double relative_error = 0;
  bool identical = false;  // True if all peers had the same mean in every repetition.
};

// Fails with INVALID_ARGUMENT if a codec is wrong or the number of hosts differs from the number of
// peers; with UNKNOWN if a peer ended early; with DEADLINE_EXCEEDED if a repetition took longer
// than `patience`. No process is left running.
absl::StatusOr<ExchangeBenchResult> MeasureExchange(const ExchangeBenchOptions& options);

}  // namespace atolld
