// A small run for tests: a genesis, an initial state, and entries. Each entry fits any replica as
// its next one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/replica.h"
#include "membership/history/signing_key.h"

namespace atolld {

struct TestRun {
  uint64_t elements = 1000;
  uint32_t chunk_elements = 256;
  std::string codec = "int8";  // The codec of payloads.
  std::string update_codec;    // if empty, `codec` is used
  std::string rule = "nesterov";
  std::optional<SigningKey> history_key{};  // not set if the history is unsigned
  std::vector<v1::RunFile> files{};         // The files that the run lists.
  bool control_variates = false;            // if true, the contributors stand for 30 of 60 parties,
                                            // and the rate is 10
  // The number of fragments that entries cover in turn; up to 2, because there are 2 tensors.
  uint32_t fragments = 1;
  // If true, peers own the run's two experts. In each entry p2 owns one of them, expert 0 in even
  // versions and expert 1 in odd ones, and nobody owns the other. The payload has values in all of
  // its chunks and between the parts.
  bool experts = false;

  v1::Genesis Genesis() const;  // has no state digest
  std::vector<float> Theta() const;

  // Returns an encoded mean pseudo-gradient, in the form that an entry has it. It is made from
  // `seed`: the same seed gives the same bytes.
  SharedBytes Payload(uint64_t seed) const;
  // Mean returns the values that Payload encodes; Covered returns the number of values of an entry.
  std::vector<float> Mean(uint64_t seed) const;
  uint64_t Covered(uint64_t version) const;

  // Returns the header that an honest coordinator writes for this version. `previous` is the digest
  // of the header before it, and `state` the digest of the state before it.
  v1::EntryHeader Header(uint64_t version, const Digest& previous, const Digest& state,
                         const SharedBytes& payload) const;

  // Returns the header of the replica's next version.
  v1::EntryHeader NextHeader(Replica& replica, const SharedBytes& payload) const;

  // Commits entries up to `version`. Each entry is made from its version as the seed.
  void CommitTo(Replica& replica, uint64_t version) const;
};

// A replica with the memory that it uses.
struct OwnedReplica {
  std::unique_ptr<std::vector<float>> theta = std::make_unique<std::vector<float>>();
  std::unique_ptr<Replica> replica;
  Replica* operator->() const { return replica.get(); }
  Replica& operator*() const { return *replica; }
};

absl::StatusOr<OwnedReplica> CreateReplica(Files& files, const std::string& dir, const TestRun& run,
                                           const std::string& buffer_folder = "");
absl::StatusOr<OwnedReplica> OpenReplica(Files& files, const std::string& dir,
                                         const std::string& buffer_folder = "");

// Returns the seal, which is signed if there is a key.
v1::Seal SealOf(Replica& replica, const std::optional<SigningKey>& key = std::nullopt);

// Returns the signing key of 32 bytes equal to `byte`.
SigningKey TestKey(char byte);

// Returns the bytes of a file, which must exist.
std::string FileBytes(Files& files, const std::string& path);

// Returns the bytes of all files below a directory, by path.
std::map<std::string, std::string> FilesBelow(Files& files, const std::string& dir);

}  // namespace atolld
