// Error feedback of one peer: what its sent updates lost is added to its next one.
//
//   a = update + decay * residual;  sent q = Encode(a)
//   after the commit: residual = a - Decode(q) where it was included, = a where it was left out
//
// A residual is as long as the flat vector. With fragments an update is of the values that its
// entry covers, and so is what an entry changes of the residual; one that an entry left out whole
// is dropped, and the residual stays as it was.
//
// (Error feedback as in compression/error_feedback.h; the run's decay is its beta.) The residual
// belongs to the peer alone and losing it is legal. Residual holds it: loop thread. The functions
// are pure and run on any thread, those that read or write its file block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"
#include "compression/codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/exchange.h"
#include "membership/history/fragment.h"
#include "membership/history/payload.h"

namespace atolld {

// What the run multiplies a residual by: 1 unless its spec says otherwise.
float FeedbackDecay(const v1::RunSpec& spec);

// `residual` holds a; subtracts Decode(chunk) for every chunk in which contributor number
// `position` of the header was included. Chunks that cannot be decoded keep a, and the first such
// error is returned.
absl::Status SubtractIncluded(const v1::EntryHeader& header, int position, const ChunkGrid& grid,
                              const Codec& codec, const Contribution& contribution,
                              absl::Span<float> residual);

// The residual of error feedback beside the replica, so that a restart loses nothing that others
// never had: the file in `dir`.
//
//   record("atoll.residual.1", genesis digest, version, values, tree digest of the values)
//   the values, raw fp32 LE
//
// `version` is that of the header that settled it. Law: it is valid as long as no later header
// includes this peer, since only an inclusion changes a residual; where that cannot be told, it is
// dropped, which is legal. Blocking.
std::string ResidualPath(const std::string& dir);

// Durable when it returns; after a crash the file is the old one or the new one.
absl::Status SaveResidual(Files& files, const std::string& dir, const v1::Genesis& genesis,
                          uint64_t version, absl::Span<const float> values);

// The one that is valid for `peer` at `committed`, the newest version of the log in `dir`.
// NOT_FOUND: there is none, or none that is valid any more. DATA_LOSS: it is broken.
absl::StatusOr<std::vector<float>> LoadResidual(Files& files, const std::string& dir,
                                                const v1::Genesis& genesis, uint64_t committed,
                                                const std::string& peer);

// Law: it changes when a header settles it, and at no other time.
class Residual {
 public:
  // `self`: the peer. `dir`: where its replica lies.
  Residual(Env env, std::string self, std::string dir)
      : env_(env), self_(std::move(self)), dir_(std::move(dir)) {}

  // nullptr: it is zero.
  const std::shared_ptr<const std::vector<float>>& values() const { return values_; }
  bool loaded() const { return loaded_; }  // it is still the one that a former life left

  // Takes the one that is valid at `version` from the disk. Blocking: before the loop runs.
  void Load(const v1::Genesis& genesis, uint64_t version);

  // It with these values where the entry of `version` covers it: as long as the flat vector.
  std::vector<float> With(const Fragments& fragments, uint64_t version,
                          absl::Span<const float> entry) const;

  // The header of `version` has settled it: this is it now. nullptr: what it was is not known.
  void Settle(uint64_t version, std::shared_ptr<const std::vector<float>> values);
  void Forget() { values_ = nullptr; }

  // After a commit: what that has settled goes to the disk, unless this was kept busy with it
  // enough.
  void Keep(const v1::Genesis& genesis);
  // What is newer than on the disk goes there, then `done` is called.
  void Save(const v1::Genesis& genesis, Task done);

 private:
  const Env env_;
  const std::string self_;
  const std::string dir_;

  std::shared_ptr<const std::vector<float>> values_;
  uint64_t version_ = 0;  // of the header that settled it
  bool loaded_ = false;
  uint64_t saved_ = 0;  // the version that is on the disk
  bool saving_ = false;
  absl::Time may_save_ = absl::InfinitePast();
  std::vector<Task> waiting_;  // for it to be saved
  CallbackGuard guard_;
};

}  // namespace atolld
