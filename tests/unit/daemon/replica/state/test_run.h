// A small run for tests: a genesis, an initial state, and entries that fit whatever replica asks
// for its next one.
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
  std::string codec = "int8";  // of payloads
  std::string update_codec;    // empty: codec
  std::string rule = "nesterov";
  std::optional<SigningKey> history_key{};  // none: an unsigned history
  std::vector<v1::RunFile> files{};         // that the run lists
  bool control_variates = false;            // of 30 of 60 parties, at a rate of 10
  uint32_t fragments = 1;                   // that entries cover in turn; 2 tensors, which two fit

  v1::Genesis Genesis() const;  // without its state digest
  std::vector<float> Theta() const;

  // A mean pseudo-gradient of that seed, encoded, as the entry of that version has it. The same
  // seed gives the same bytes.
  SharedBytes Payload(uint64_t seed) const;
  // The values that it is the encoding of, and how many those of an entry are.
  std::vector<float> Mean(uint64_t seed) const;
  uint64_t Covered(uint64_t version) const;

  // The header that an honest coordinator writes after (`genesis`, the header of digest `previous`,
  // state `state`).
  v1::EntryHeader Header(uint64_t version, const Digest& previous, const Digest& state,
                         const SharedBytes& payload) const;

  // For the replica's next version.
  v1::EntryHeader NextHeader(Replica& replica, const SharedBytes& payload) const;

  // Commits the entries of seeds version()+1 .. version.
  void CommitTo(Replica& replica, uint64_t version) const;
};

// A replica with the memory that it borrows.
struct OwnedReplica {
  std::unique_ptr<std::vector<float>> theta = std::make_unique<std::vector<float>>();
  std::unique_ptr<Replica> replica;
  Replica* operator->() const { return replica.get(); }
  Replica& operator*() const { return *replica; }
};

absl::StatusOr<OwnedReplica> CreateReplica(Files& files, const std::string& dir,
                                           const TestRun& run);
absl::StatusOr<OwnedReplica> OpenReplica(Files& files, const std::string& dir);

// Signed, if there is a key.
v1::Seal SealOf(Replica& replica, const std::optional<SigningKey>& key = std::nullopt);

// The signing key of 32 such bytes.
SigningKey TestKey(char byte);

// The bytes of a file on a disk, which must be there.
std::string FileBytes(Files& files, const std::string& path);

// All files below a directory of a disk: the bytes, by path.
std::map<std::string, std::string> FilesBelow(Files& files, const std::string& dir);

}  // namespace atolld
