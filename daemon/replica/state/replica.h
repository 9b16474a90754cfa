// Replica: the replicated state of a run on one machine - theta, the outer rule's buffers, the log
// that led there.
//
//   state v = OuterStep(state v-1, Decode(entry v))     a pure function, the same bits everywhere
//
// Laws: a payload is durable as *prepared* before anybody votes for it; a header is durable before
// the state steps; the version never falls; whatever instant the process dies at, Open finds the
// newest durable version. Thread rule: one thread at a time (the owner runs it on a SerialQueue);
// blocking (files, outer step, hashes).
//
// On disk, under `dir`: genesis (proto in a checksummed frame), snapshots/V (see snapshot.h), log/
// (see update_log.h), seal.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/bytes.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/retention_pass.h"
#include "membership/history/digest.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"

namespace atolld {

struct Entry {
  v1::EntryHeader header;
  SharedBytes payload;
};

class Replica {
 public:
  // Gives memory for theta once its size is known; it must outlive the replica. (A worker reads it
  // as shared memory.)
  using PlaceTheta = std::function<absl::StatusOr<absl::Span<float>>(uint64_t elements)>;

  // Makes version 0 durable from `theta`, which PlaceTheta-like memory already holds. The genesis'
  // state digest is computed here and set. FAILED_PRECONDITION if `dir` holds a replica already.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(Files& files, const std::string& dir,
                                                         v1::Genesis genesis,
                                                         absl::Span<float> theta);

  // Newest valid snapshot + the log's tail, replayed. NOT_FOUND: nothing there. DATA_LOSS names
  // file and offset. A torn record at the log's very end (a crash in the middle of a write) is cut
  // off, not an error.
  static absl::StatusOr<std::unique_ptr<Replica>> Open(Files& files, const std::string& dir,
                                                       const PlaceTheta& place_theta);
  ~Replica();

  const v1::Genesis& genesis() const;
  ChunkGrid grid() const;              // of the vector of the next entry
  const Fragments& fragments() const;  // what entries cover
  uint64_t version() const;
  Digest header_digest() const;           // of header `version`; the genesis digest at 0
  const v1::EntryHeader* header() const;  // nullptr at 0
  absl::Span<const float> theta() const;
  // The outer rule's buffers, in its order.
  absl::Span<const float> buffer(size_t index) const;
  absl::Span<const float> control() const;  // the common control variate; empty: the run has none
  std::optional<v1::Seal> seal() const;

  // Hashes the whole state; kept until the version changes.
  Digest StateDigest();

  // Makes the payload of version()+1 durable. Replaces an earlier one (an older plan's).
  absl::Status Prepare(const SharedBytes& payload);
  // Digest of what is prepared for version()+1, if anything (survives a restart).
  std::optional<Digest> prepared_digest() const;

  // Commits version()+1: checks the header against the chain, finds the payload (`payload` if
  // given, else the prepared one) whose digest the header carries, makes header and payload
  // durable, steps the state. If `difference` is not empty it is as long as theta and receives
  // theta_new - theta_old. NOT_FOUND: the payload is not here (fetch it, commit again).
  // FAILED_PRECONDITION: the chain is broken, or the header's previous_state_digest is not ours
  // (the state is kept). Every error begins with "entry V: ".
  absl::Status Commit(const v1::EntryHeader& header, const SharedBytes* payload,
                      absl::Span<float> difference);

  absl::Status WriteSeal(const v1::Seal& seal);

  // Of the header of a version up to this one. NOT_FOUND: it was dropped, or never was here.
  absl::StatusOr<Digest> HeaderDigestOf(uint64_t version) const;

  // Reads a committed entry for others. NOT_FOUND outside [oldest_entry(), version()].
  absl::StatusOr<Entry> ReadEntry(uint64_t version) const;
  uint64_t oldest_entry() const;

  // One whole pass of retention (see retention_pass.h): makes the snapshot that is due and drops
  // what the policy no longer keeps. Does not touch live memory: may run beside the other methods,
  // on another thread. `state`: the digest at `committed_version`, if it is known.
  static absl::Status AdvanceSnapshots(Files& files, const std::string& dir,
                                       const RetentionPolicy& policy, uint64_t committed_version,
                                       std::optional<Digest> state = std::nullopt);

  // Drops the headers before the oldest snapshot, as far as they are more than `allowance` bytes
  // (HeaderAllowance). After a pass.
  absl::Status CompactLog(uint64_t allowance);

  // Makes the live state the one snapshot and begins the log anew after it: for when the disk can
  // no longer make a snapshot (a pass ended with DATA_LOSS) and the state here is known to be
  // right. No pass may be under way. Blocks for as long as the state takes to be written.
  // DATA_LOSS: the memory has changed since its digest was taken; nothing is written then.
  absl::Status SaveState();

 private:
  struct State;
  explicit Replica(std::unique_ptr<State> state);
  absl::Status CheckSuccessor(const v1::EntryHeader& header);
  std::unique_ptr<State> state_;
};

}  // namespace atolld
