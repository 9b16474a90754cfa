// OwnEvaluation: what the parties of a run with private data lose on what each has held out of its
// own data, for one version.
//
// Everybody is asked once that holds the state, and answers with a loss for each of its parties, or
// with none. Nobody can check such a loss, so it decides nothing: it is shown. Whoever dies or
// shows no sign of life in time is not waited for, and its parties are missing in the figures.
// Pure; one thread.
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

inline constexpr int kMostOwnLosses = 1024;  // of one peer, as membership.proto says

// Of these, in any order: the smallest that at least `share` of them do not exceed (the nearest
// rank). 0 of none.
double NearestRank(absl::Span<const double> values, double share);

class OwnEvaluation {
 public:
  // What is to be sent to a peer that holds the state. Nothing: it was asked before.
  std::optional<v1::Evaluate> Ask(absl::Time now, uint64_t version, const std::string& peer);
  void TakeBack(const std::string& peer);  // it will not answer; it may be asked again, twice
  void OnProgress(absl::Time now, const std::string& peer, uint64_t done);
  // Those that are not waited for any more: without a sign of life for `patience`, or with an order
  // that is `most` old.
  std::set<std::string> TakeOverdue(absl::Time now, absl::Duration patience, absl::Duration most);
  absl::Time Deadline(absl::Duration patience, absl::Duration most) const;  // InfiniteFuture: none
  std::set<std::string> Holders() const;  // have been asked and may still answer
  // How long the answer took; nothing: it was not asked, or has answered before.
  std::optional<absl::Duration> OnEvaluated(absl::Time now, const std::string& peer,
                                            const v1::Evaluated& evaluated);
  void Close();           // nobody is waited for any more
  size_t losses() const;  // that are in
  uint64_t tokens() const { return tokens_; }
  // The figures of the parties. A loss that is no number counts where there is no other.
  void Show(v1::EvaluationRecord* record) const;

 private:
  struct Asked {
    bool open = false;
    absl::Time given, life;
    uint64_t done = 0;
    int times = 0;
  };
  std::map<std::string, Asked> asked_;
  std::map<std::string, std::vector<double>> losses_;  // in the order of names: as the sums are
  uint64_t tokens_ = 0;
};

}  // namespace atolld
