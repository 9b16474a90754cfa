// Replica: the replicated state of a run on one machine. It consists of theta, the outer rule's
// buffers, and the log that led to them.
//
//   state v = OuterStep(state v-1, Decode(entry v))     a pure function, the same bits everywhere
//
// Laws: a payload is durable as *prepared* before the peer votes for it; a header is durable before
// the state steps; the version never falls; no matter when the process dies, Open finds the newest
// durable version. Used by one thread at a time (the owner uses a SerialQueue). Its calls block
// (files, outer step, hashes).
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
  // Returns memory for theta; called once the number of parameters is known. The memory must
  // outlive the replica. (The worker reads theta in this memory, which it shares.)
  using PlaceTheta = std::function<absl::StatusOr<absl::Span<float>>(uint64_t elements)>;

  // Makes a durable version 0 from `theta`, which the replica then uses as its theta, so that it
  // must outlive the replica. The outer rule's buffers lie in files in `buffer_folder`, or in
  // memory if it is empty. Computes the state digest and sets it in the genesis. Fails with
  // FAILED_PRECONDITION if `dir` already holds a replica, and with RESOURCE_EXHAUSTED if there is
  // no room for the buffers.
  static absl::StatusOr<std::unique_ptr<Replica>> Create(Files& files, const std::string& dir,
                                                         v1::Genesis genesis,
                                                         absl::Span<float> theta,
                                                         const std::string& buffer_folder = "");

  // Loads the newest valid snapshot and replays the log after it. Fails with NOT_FOUND if there is
  // no replica, and with DATA_LOSS if a file is damaged; the message names the file and the offset.
  // A torn record at the end of the log, which a crash in the middle of a write leaves, is cut off
  // and is not an error.
  static absl::StatusOr<std::unique_ptr<Replica>> Open(Files& files, const std::string& dir,
                                                       const PlaceTheta& place_theta,
                                                       const std::string& buffer_folder = "");
  ~Replica();

  const v1::Genesis& genesis() const;
  ChunkGrid grid() const;              // The grid of the next entry's vector.
  const Fragments& fragments() const;  // The fragments that entries cover.
  uint64_t version() const;
  // The digest of the header of version(); at version 0, the genesis digest.
  Digest header_digest() const;
  const v1::EntryHeader* header() const;  // The header of version(); nullptr at version 0.
  absl::Span<const float> theta() const;
  // Returns one of the outer rule's buffers. Their order is the rule's.
  absl::Span<const float> buffer(size_t index) const;
  // The common control variate; empty if the run has none.
  absl::Span<const float> control() const;
  std::optional<v1::Seal> seal() const;
  // Called when no buffer is used for a while (ValueMemory::Release).
  void Release() const;

  // Hashes the whole state. The digest is cached until the version changes.
  Digest StateDigest();

  // Makes the payload of version()+1 durable. It replaces a payload that was prepared under an
  // older plan.
  absl::Status Prepare(const SharedBytes& payload);
  // Returns the digest of the payload that is prepared for version()+1, if there is one. It is
  // known after a restart as well.
  std::optional<Digest> prepared_digest() const;

  // Commits version()+1: checks the header against the chain, finds the payload with the header's
  // digest (`payload` if given, otherwise the prepared one), makes header and payload durable, and
  // steps the state. If `difference` is not empty, it must be as long as theta and receives
  // theta_new - theta_old.
  //
  // Fails with NOT_FOUND if the payload is missing (fetch it and commit again), and with
  // FAILED_PRECONDITION if the chain is broken or the header's previous_state_digest is not the
  // digest of this state; the state is then unchanged. Every error begins with "entry V: ".
  absl::Status Commit(const v1::EntryHeader& header, const SharedBytes* payload,
                      absl::Span<float> difference);

  absl::Status WriteSeal(const v1::Seal& seal);

  // Returns the digest of the header of a version up to version(). Fails with NOT_FOUND if this
  // replica has dropped the header or never had it.
  absl::StatusOr<Digest> HeaderDigestOf(uint64_t version) const;

  // Reads a committed entry for other peers. Fails with NOT_FOUND outside [oldest_entry(),
  // version()].
  absl::StatusOr<Entry> ReadEntry(uint64_t version) const;
  uint64_t oldest_entry() const;

  // Makes one whole pass of retention (see retention_pass.h): makes the snapshot that is due and
  // drops the files that the policy no longer keeps. It does not touch the state in memory, so it
  // may run on another thread beside the other methods. `state` is the state digest at
  // `committed_version`, if it is known.
  static absl::Status AdvanceSnapshots(Files& files, const std::string& dir,
                                       const RetentionPolicy& policy, uint64_t committed_version,
                                       std::optional<Digest> state = std::nullopt);

  // Drops headers before the oldest snapshot if they take more than `allowance` bytes
  // (HeaderAllowance). Called after a pass.
  absl::Status CompactLog(uint64_t allowance);

  // Writes the state in memory as the only snapshot, and begins a new log after it. Called if no
  // snapshot can be made from the disk any more (a pass has ended with DATA_LOSS) and the state in
  // memory is known to be right. No pass may be under way. The call blocks until the state is
  // written. Fails with DATA_LOSS, and writes nothing, if the memory has changed since its digest
  // was taken.
  absl::Status SaveState();

 private:
  struct State;
  explicit Replica(std::unique_ptr<State> state);
  absl::Status CheckSuccessor(const v1::EntryHeader& header);
  std::unique_ptr<State> state_;
};

}  // namespace atolld
