// OwnUpdate: what a round's own contribution is - the update that this peer's worker has trained,
// encoded once, until an entry has taken it - and what earlier ones have lost.
//
// Laws: an update is encoded once and those bytes stand until a header says whether they were
// included; the residual changes at a commit alone. Where updates are masked it is the values that
// stand, and each attempt at a masked sum has an encoding of its own. Where entries cover fragments
// an update is of the next entry's, and dropped if that entry leaves it out. Loop thread; encoding
// and measuring run on the keeper's queue, so that theta does not move under them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "atoll/v1/membership.pb.h"
#include "compression/wire_codec.h"
#include "daemon/env/env.h"
#include "daemon/exchange/contribution.h"
#include "daemon/exchange/exchange.h"
#include "daemon/peer/replica_keeper.h"
#include "daemon/peer/residual.h"
#include "membership/privacy/privacy_budget.h"

namespace atolld {

// What a peer tells of the length of its update, and what its exchanges make updates one by.
//
// Where the run's rule has a centre, that is the mean of the newest entry: read when the replica
// moves, and the update's distance from it is measured anew for each version that the update is
// offered to. A replica that has come by a snapshot alone does not hold it, and tells no distance.
class UpdateMeasure {
 public:
  explicit UpdateMeasure(ReplicaKeeper& keeper) : keeper_(keeper) {}

  // The run's; once, checked before.
  void Follow(const v1::ExchangeSpec& exchange, const LevelCodecs& codecs);

  // The replica has moved: its newest mean is another.
  void Load();

  // Sets the norms of `ready`. False: they are not known yet for the replica's version; `later` is
  // called when they are, once.
  bool Tell(const std::shared_ptr<const Contribution>& contribution, v1::Ready* ready, Task later);

  // For an exchange of the entry after the replica's version.
  void Fill(ExchangeSettings* settings) const;

 private:
  bool from_centre() const { return rule_.has_value() && rule_->has_centre(); }
  bool Loaded() const { return loaded_ && version_ == keeper_.version(); }

  ReplicaKeeper& keeper_;
  LevelCodecs codecs_;
  std::optional<AggregationRule> rule_;  // nothing: the weighted mean
  bool loaded_ = false;
  uint64_t version_ = 0;                  // of the centre
  std::shared_ptr<const Centre> centre_;  // nullptr: it is not here
  // What was measured last: of which update, from which version's mean.
  std::shared_ptr<const Contribution> measured_;
  uint64_t measured_from_ = 0;
  ChunkNorms norms_;
  Task later_;
  CallbackGuard guard_;
};

class OwnUpdate {
 public:
  // What lies in the update slot.
  struct Trained {
    uint64_t first_sample = 0;  // of those that it was trained on
    // With differential privacy:
    double clip = 0;          // to scale it down to; 0: as the run says
    uint32_t parties = 0;     // whose mean it is, each clipped already; 0: its own, which is not
    uint32_t within = 0;      // of how many of those the update was no longer
    bool slow_codec = false;  // to be encoded as those behind slow lines do
  };
  // An update whose values are kept as they are, since every attempt masks them anew.
  struct Plain {
    std::shared_ptr<const std::vector<float>> values;  // clipped, and with noise
    Rounding rounding;                                 // of its codes in the ring
  };
  // What the worker has handed over, encoded.
  struct Encoded {
    std::shared_ptr<const Contribution> contribution;  // nullptr where updates are masked
    std::vector<float> values{};   // with error feedback: a = update + residual,
                                   // of the entry's values
    double clip = 0;               // where it follows a quantile: that was used
    double within = 0;             // and Ready.within
    bool slow_codec = false;       // as it was asked for
    std::optional<Plain> plain{};  // only where updates are masked
  };

  // `dir`: where the replica lies, and beside it the residual.
  OwnUpdate(Env env, std::string self, std::string dir, ReplicaKeeper& keeper);

  void Follow(const v1::RunSpec& spec);  // once, checked before

  // Encodes what lies in the update slot, of the values that the next entry covers, or copies it
  // where updates are masked. With differential privacy it is clipped before, and has noise added
  // whose key is drawn here and forgotten. An error: no update can be made of it.
  void Encode(const Trained& trained, std::function<void(absl::Status, Encoded)> done);

  // It waits to be taken into an entry, with what is told of it; or no longer does. `missed`: it
  // was formed without the newest entry (Ready.base_version).
  void Hold(Encoded encoded, v1::Ready ready, bool missed = false);
  void Drop() { held_.reset(); }
  bool held() const { return held_.has_value(); }
  // Whether an entry has taken the newest update of this process.
  bool taken() const { return taken_; }
  // This peer's place among the contributors of a header that is about to settle the held update,
  // if that is what it contributed; nullptr: it is not in it.
  const v1::Contributor* TakenBy(const v1::EntryHeader& header) const;
  std::shared_ptr<const Contribution> contribution() const;  // nullptr: none is held, or masked
  // Where updates are masked: the held one, by which its weight is told, and the contribution that
  // an attempt has made of it, which goes with the attempt (nullptr), or with the update.
  const Plain* plain() const;  // nullptr: none is held
  float weight() const;        // as the coordinator computes it; 0: none is held
  void Stand(std::shared_ptr<const Contribution> masked);
  std::vector<v1::SampleRange> samples() const;  // that it was trained on

  // What is told of the held one for the entry after the replica's version, unsigned. Nothing: not
  // all of it is known yet; `later` is called when it is, or OnDigest of the keeper comes.
  std::optional<v1::Ready> Offer(uint64_t epoch, Task later);
  // For an exchange of the entry after the replica's version.
  void Fill(ExchangeSettings* settings) const { measure_.Fill(settings); }

  // The replica has moved by this entry: included, or left for a later one.
  void OnCommitted(const v1::EntryHeader& header);
  // A snapshot has led past this entry. False: headers are missing before it.
  bool OnSkipped(const v1::EntryHeader& header);
  // Whether one of these has dropped an update, since the next entry covers other values; once.
  bool TakeDropped() { return std::exchange(dropped_, false); }
  // The replica was opened at its version. True: an update was held and is dropped, since nobody
  // can tell whether an entry that was not seen here has taken it. LoadCentre comes after it.
  bool OnOpened();
  void LoadCentre() { measure_.Load(); }
  uint64_t settled_version() const { return settled_version_; }  // newest entry it was judged by

  // The residual's file. Load: blocking, before the loop runs. Save: what is newer than on the
  // disk, then `done`.
  void LoadResidual();
  void SaveResidual(Task done) { residual_.Save(keeper_.genesis(), std::move(done)); }

 private:
  struct Held {
    Encoded encoded;
    v1::Ready ready;
    bool missed = false;
  };

  void Settle(const v1::EntryHeader& header);
  void SettleResidual(const v1::EntryHeader& header, int position);

  const Env env_;
  const std::string self_;
  ReplicaKeeper& keeper_;

  v1::RunSpec spec_;
  LevelCodecs codecs_;
  PrivacyTerms privacy_;
  UpdateMeasure measure_;
  std::optional<Held> held_;
  bool taken_ = false;
  bool dropped_ = false;
  uint64_t settled_version_ = 0;
  Residual residual_;
  CallbackGuard guard_;
};

}  // namespace atolld
