// OwnUpdate: a peer's own contribution to a round. It is the update that the peer's worker has
// trained, encoded once and kept until an entry has taken it. OwnUpdate also holds the residual
// that earlier updates have left.
//
// Laws: an update is encoded once and its bytes are kept until a header says whether they were
// included; the residual changes only at a commit or when the update is refused. If updates are
// masked, the values are kept instead, and each attempt at a masked sum has an encoding of its own.
// If entries cover fragments, an update is for the fragment of the next entry and is dropped if
// that entry leaves it out. Used on the loop thread; encoding and measuring run on the keeper's
// queue, so that theta does not change meanwhile.
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

// Measures the length of a peer's update, which is reported to the coordinator, and gives exchanges
// the rule by which they aggregate updates.
//
// If the run's rule has a centre, the centre is the mean of the newest entry. It is read when the
// replica moves, and the update's distance from it is measured anew for each version that the
// update is offered for. A peer whose replica was fetched as a snapshot does not hold the centre
// and reports no distance.
class UpdateMeasure {
 public:
  explicit UpdateMeasure(ReplicaKeeper& keeper) : keeper_(keeper) {}

  // Sets the run's rule and codecs, which must have been checked. Called once.
  void Follow(const v1::ExchangeSpec& exchange, const LevelCodecs& codecs);

  // Called when the replica has moved: reads the new centre.
  void Load();

  // Sets the norms in `ready`. If they are not known yet for the replica's version, returns false
  // and calls `later` once they are known.
  bool Tell(const std::shared_ptr<const Contribution>& contribution, v1::Ready* ready, Task later);

  // Fills in the settings for an exchange of the entry after the replica's version.
  void Fill(ExchangeSettings* settings) const;

 private:
  bool from_centre() const { return rule_.has_value() && rule_->has_centre(); }
  bool Loaded() const { return loaded_ && version_ == keeper_.version(); }

  ReplicaKeeper& keeper_;
  LevelCodecs codecs_;
  std::optional<AggregationRule> rule_;  // Nullopt means the weighted mean.
  bool loaded_ = false;
  uint64_t version_ = 0;                  // The version of the centre.
  std::shared_ptr<const Centre> centre_;  // Nullptr if this peer does not hold the centre.
  // The last measured update, the version from whose mean its distance was measured, and the norms.
  std::shared_ptr<const Contribution> measured_;
  uint64_t measured_from_ = 0;
  ChunkNorms norms_;
  Task later_;
  CallbackGuard guard_;
};

class OwnUpdate {
 public:
  // Describes the update that lies in the update slot.
  struct Trained {
    uint64_t first_sample = 0;  // The first of the samples that the update was trained on.
    // The following fields are for differential privacy.
    double clip = 0;  // The length to which the update is clipped; 0 means the run's clip.
    // The number of parties whose clipped updates were averaged; 0 if the update is the peer's own
    // and not clipped yet.
    uint32_t parties = 0;
    uint32_t within = 0;      // The number of those updates that were no longer than `clip`.
    bool slow_codec = false;  // True if the update is to be encoded with the codec for slow lines.
    std::string owned;        // With experts: those that it was trained on, as in Train.
  };
  // An update whose values are kept unencoded because each attempt at a masked sum encodes and
  // masks them anew.
  struct Plain {
    std::shared_ptr<const std::vector<float>> values;  // The values, clipped and with noise added.
    Rounding rounding;  // How the values are rounded to the codes of the ring.
  };
  // The update that the worker has handed over, encoded.
  struct Encoded {
    std::shared_ptr<const Contribution> contribution;  // Nullptr if updates are masked.
    // With error feedback, a = update + residual for the values that the entry covers; otherwise
    // empty.
    std::vector<float> values{};
    double clip = 0;               // The clip that was used, if the run's clip follows a quantile.
    double within = 0;             // Ready.within in that case.
    bool slow_codec = false;       // See Trained::slow_codec.
    std::string owned{};           // See Trained::owned.
    std::optional<Plain> plain{};  // Set only if updates are masked.
  };

  // `dir` is the folder of the replica and of the residual.
  OwnUpdate(Env env, std::string self, std::string dir, ReplicaKeeper& keeper);

  void Follow(const v1::RunSpec& spec);  // Called once, with a checked spec.

  // Encodes the values of the update slot that the next entry covers, or copies them if updates are
  // masked. With differential privacy the update is clipped first, and noise is added; the key of
  // the noise is random and is not kept. Calls `done` with an error if no update can be made from
  // the slot.
  void Encode(const Trained& trained, std::function<void(absl::Status, Encoded)> done);

  // Hold keeps the update and its Ready until an entry takes the update; Drop drops them. `missed`
  // is true if the update was trained without the newest entry (see Ready.base_version).
  void Hold(Encoded encoded, v1::Ready ready, bool missed = false);
  void Drop() { held_.reset(); }
  // Called when the held update was refused for its content. Drops the update, and also the
  // residual, which may be the cause.
  void Refuse();
  // True after Refuse until the next update is held.
  bool refused() const { return refused_; }
  bool held() const { return held_.has_value(); }
  // taken() is true if an entry has taken the newest update that this process held. carried() is
  // then the share of the encoding's loss that is carried into the next update (see CarriedShare).
  bool taken() const { return taken_; }
  float carried() const { return carried_; }
  // Returns the contributor in `header` that is this peer's held update, or nullptr if the header
  // does not include that update. Must be called before the header settles the update.
  const v1::Contributor* TakenBy(const v1::EntryHeader& header) const;
  // The encoded update; nullptr if no update is held or the held update is not masked yet.
  std::shared_ptr<const Contribution> contribution() const;
  // The next functions are for runs that mask updates. plain() is the held update and weight() its
  // weight. Stand sets the contribution that an attempt has made from the update; it is dropped by
  // Stand(nullptr) when the attempt ends, or together with the update.
  const Plain* plain() const;  // Nullptr if no update is held.
  float weight() const;        // The weight as the coordinator computes it; 0 if no update is held.
  void Stand(std::shared_ptr<const Contribution> masked);
  std::vector<v1::SampleRange> samples() const;  // The samples that the held update was trained on.

  // Returns the unsigned Ready of the held update for the entry after the replica's version.
  // Returns nullopt if some of its fields are not known yet. The caller must then try again when
  // `later` is called or the keeper calls on_digest.
  std::optional<v1::Ready> Offer(uint64_t epoch, Task later);
  // Fills in the settings for an exchange of the entry after the replica's version.
  void Fill(ExchangeSettings* settings) const { measure_.Fill(settings); }

  // Called when the replica has moved by this entry, whether or not the entry has taken the held
  // update.
  void OnCommitted(const v1::EntryHeader& header);
  // Called when the replica, by a snapshot, has skipped this entry. Returns false if headers before
  // it are missing.
  bool OnSkipped(const v1::EntryHeader& header);
  // Returns true if OnCommitted or OnSkipped has dropped an update, since the last call, because
  // the next entry covers other values.
  bool TakeDropped() { return std::exchange(dropped_, false); }
  // Called when the replica was opened. Returns true if it has dropped the held update because an
  // entry that this peer has not seen may have taken it. LoadCentre must be called afterwards.
  bool OnOpened();
  void LoadCentre() { measure_.Load(); }
  // The replica's version at the last call of OnCommitted, OnSkipped or OnOpened.
  uint64_t settled_version() const { return settled_version_; }

  // These functions read and write the residual's file. LoadResidual blocks and is called before
  // the loop runs. SaveResidual saves the residual if it is newer than the file, then calls `done`.
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
  bool refused_ = false;
  float carried_ = 1;
  bool dropped_ = false;
  uint64_t settled_version_ = 0;
  Residual residual_;
  CallbackGuard guard_;
};

}  // namespace atolld
