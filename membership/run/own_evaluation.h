// OwnEvaluation: for one version, collects the validation losses of a run with private data. Each
// party computes its loss on data of its own that it has held out.
//
// Each peer that holds the state is asked once, and answers with a loss for each of its parties, or
// with no losses. Such a loss cannot be checked, so it is only shown and no decision depends on it.
// The evaluation does not wait for a peer that dies or shows no sign of life in time; the figures
// then lack that peer's parties. Pure. Used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// The most losses that one peer may report (see membership.proto).
inline constexpr int kMostOwnLosses = 1024;

// Returns the smallest of `values`, in any order, that at least `share` of the values do not exceed
// (the nearest rank). NaN ranks above every number, since it is worse than any loss. Returns NaN if
// there are no values.
double NearestRank(absl::Span<const double> values, double share);

class OwnEvaluation {
 public:
  // Returns the question to send to a peer that holds the state, or nullopt if the peer has been
  // asked and need not be asked again.
  std::optional<v1::Evaluate> Ask(absl::Time now, uint64_t version, const std::string& peer);
  // Called when the peer will not answer. It may be asked once more.
  void TakeBack(const std::string& peer);
  void OnProgress(absl::Time now, const std::string& peer, uint64_t done);
  // Stops waiting for the peers that have shown no sign of life for `patience` or were asked `most`
  // ago, and returns them.
  std::set<std::string> TakeOverdue(absl::Time now, absl::Duration patience, absl::Duration most);
  // Returns when the next peer becomes overdue, or InfiniteFuture if no peer is waited for.
  absl::Time Deadline(absl::Duration patience, absl::Duration most) const;
  std::set<std::string> Holders() const;  // the peers that were asked and may still answer
  // Takes a peer's answer. Returns how long it took, or nullopt if the peer was not asked or has
  // answered before.
  std::optional<absl::Duration> OnEvaluated(absl::Time now, const std::string& peer,
                                            const v1::Evaluated& evaluated);
  void Close();           // ends the waiting for all peers
  size_t losses() const;  // the number of losses that have arrived
  uint64_t tokens() const { return tokens_; }
  // Sets the parties' figures in the record; sets nothing if no party has reported a loss. If a
  // loss is NaN, so is the mean; the percentiles are ranks among all losses.
  void Show(v1::EvaluationRecord* record) const;

 private:
  struct Asked {
    bool open = false;
    absl::Time given, life;
    uint64_t done = 0;
    int times = 0;
  };
  std::map<std::string, Asked> asked_;
  // The losses by peer. They are summed in the order of the peers' names.
  std::map<std::string, std::vector<double>> losses_;
  uint64_t tokens_ = 0;
};

}  // namespace atolld
