// PrivacyLaw: checks what is recorded for the rounds of a run with differential privacy. It judges
// by what peers were told, not by what they claim.
//
// It hears what the coordinator tells in its Trains and what honest programs say in their Readys; a
// peer that lies about itself does so after the point at which it is heard. For each record it
// recomputes the noise from the header and from the clips that were told. It also computes the
// range of the next clip for the case that one peer lies. A round's epsilon must not be less than
// the epsilon of the round before it with this round's noise added. It shares no code with the
// product.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

class PrivacyLaw {
 public:
  struct Terms {
    double noise = 0;
    double parties = 0;  // the number of parties in a full round, one for each peer
    double clip = 0;     // the clip of the first round; 0 means the run has no moving clip
    double quantile = 0.5;
    double delta = 0;  // for this delta each round counts in full, because peers learn which
                       // parties take part
    std::set<std::string> liars = {};  // Peers that may claim anything.
  };

  explicit PrivacyLaw(Terms terms);

  void OnTrain(const v1::Train& train);
  void OnReady(const std::string& peer, const v1::Ready& ready);
  // Returns what is wrong with the record; empty if it is right or cannot be judged.
  std::string OnRecord(const v1::EntryHeader& header, const v1::RoundRecord& record);

 private:
  struct Range {
    double least = 0, most = 0;
  };

  bool Heard(const v1::EntryHeader& header) const;
  bool OneClip(const v1::EntryHeader& header) const;
  double NoiseOf(const v1::EntryHeader& header, const std::string* bitmap) const;
  Range ShareOf(const v1::EntryHeader& header) const;
  void NoteClip(double clip);
  std::string CheckSpent(const v1::RoundRecord& record);

  const Terms terms_;
  std::map<uint64_t, double> told_;  // by the number of the clip
  // The newest clips, each once, that the next clip may follow: clips that were told, and clips of
  // valid records that the coordinator may not have told before it died.
  std::deque<double> newest_;
  uint64_t counted_ = 0;  // The newest version whose epsilon was judged.
  double spent_ = 0;      // The sum up to that version, as CheckSpent computes it.
  // Everything that each peer said, by version and by peer.
  std::map<uint64_t, std::map<std::string, std::vector<v1::Ready>>> readies_;
};

}  // namespace atolld
