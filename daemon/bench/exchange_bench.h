// `atoll bench exchange`: how long peers take from their values to the mean of all of them, each
// peer a process of its own.
//
// The parent starts the peers, tells each where the others listen, and gives the word for every
// repetition; it speaks to them by lines of text over pipes, so that nothing but the exchange uses
// the network. A repetition lasts from that word until the last peer holds the decoded mean:
// encoding, exchange, hashing for the vote, and decoding are all in it; disk and coordinator are
// not. Loop thread; blocking.
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
  std::string upper_codec;  // of means; empty: codec
  uint32_t chunk_elements = 65536;
  int lanes = 1;                   // connections a pair of peers, each way
  bool plaintext = false;          // otherwise mutual TLS, with certificates made for the occasion
  int repeats = 9;                 // after one that is not counted
  double pause_seconds = 0;        // before each, in which nothing is sent, as while a run trains
  int threads = 0;                 // of each peer's pool; 0: its share of the processors
  std::vector<std::string> hosts;  // where each peer listens; empty: 127.0.0.1
  std::vector<bool> reachable;     // false: nobody can dial it, so it reduces nothing; empty: all
  std::vector<std::string> names;  // of the launcher's "{name}"; empty: the peers' numbers
  std::vector<std::string> launcher;  // before each peer's command; "{peer}" is its number from 1
  absl::Duration patience = absl::Minutes(1);  // with one repetition
};

struct ExchangeBenchResult {
  std::vector<double> seconds;  // of each repetition
  double seconds_median = 0;
  double encode_seconds = 0;  // medians of the slowest peer's parts
  double exchange_seconds = 0;
  double decode_seconds = 0;
  double bytes_sent_per_peer = 0;   // of one repetition, mean of the peers
  double cpu_seconds_per_peer = 0;  // likewise
  std::vector<double> cpu_seconds;  // of each peer, median of the repetitions
  // Share of all cores' time that anything on this machine used, median; negative: not known.
  double machine_busy = -1;
  double relative_error = 0;  // of the mean, in the L2 norm; the worst peer's
  bool identical = false;     // every peer had the same mean in every repetition
};

// INVALID_ARGUMENT: a wrong codec, more hosts or fewer than peers. UNKNOWN: a peer ended early;
// DEADLINE_EXCEEDED: a repetition took longer than the patience. No process is left behind.
absl::StatusOr<ExchangeBenchResult> MeasureExchange(const ExchangeBenchOptions& options);

}  // namespace atolld
