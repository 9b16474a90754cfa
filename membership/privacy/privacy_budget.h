// PrivacyBudget: computes how much of a run's differential privacy each entry spends, and decides
// whether another entry may follow.
//
// Every party scales its update down to the clip C and itself adds noise of standard deviation
// noise x C / sqrt(n), where n (`parties`) is the number of parties of a full round. The sum of a
// full round then has noise of deviation noise x C, as if one trusted place had added it. An entry
// with fewer parties has less noise and spends more. Let a chunk have contributors with weight w,
// scale c and p parties each. The share of one party is f = w c / p, and the noise in units of the
// largest change that one party can make is
//   noise x sqrt(sum of p f^2 / n) / (largest f)
// The noise of an entry is the least noise of its chunks.
//
// A peer that hosts p parties sends the mean of p clipped updates, so it adds noise x C / sqrt(n p)
// to that mean, once.
//
// The clip may follow a quantile g (Andrew et al., "Differentially Private Learning with Adaptive
// Clipping", arXiv:1905.03871, algorithm 1). Each contributor then also sends a count: the number
// of its p parties whose update was no longer than its clip, less p / 2, with noise of s sqrt(p /
// n), where s = n / 20. With b the sum of these counts over all parties behind an entry, plus 1/2,
// the clip becomes C exp(-0.2 (b - g)). The count uses a part of the privacy that `noise` buys
// (theorem 1 of the same paper): the noise of updates becomes (noise^-2 - (2 s)^-2)^(-1/2) instead,
// which needs n > 10 noise. A late update was clipped to an older C. Each share f is therefore
// multiplied by the C of its update, and the noise of an entry is at most noise x sqrt(its parties
// / n), which is the noise of the counts.
//
// A peer may lie about its own update, and the lie would affect all others. Its update therefore
// counts with the clip that its Train named, not with the one that the peer reports (see
// told_clips.h), and its count is limited to what an honest peer with that many parties can
// produce.
//
// Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/privacy/accountant.h"
#include "membership/privacy/told_clips.h"

namespace atolld {

struct PrivacyTerms {
  double clip = 0;      // the clip at the start of the run; 0 if privacy is off
  double noise = 0;     // the noise of a full round, as a multiple of the clip
  double quantile = 0;  // 0 if the clip is constant
  // The share of the parties that are drawn for a round; the largest one if it differs between
  // peers.
  double sampling = 1;
  double parties = 1;  // the parties of a full round
  double delta = 0;
  double epsilon = 0;  // 0 if epsilon is only reported, not limited

  bool on() const { return clip > 0; }
  // Returns the deviation of the noise that one contributor adds to the mean of `behind` parties'
  // updates, none of which is longer than `length`. `behind` = 0 counts as 1.
  double Deviation(double length, uint32_t behind) const;
  // Returns the deviation of the noise that a contributor with `behind` parties adds to its count.
  double CountDeviation(uint32_t behind) const;
  // Returns the noise of a round with `present` parties of equal weight.
  double NoiseOf(double present) const;
  // Limits Ready.within, the count of a peer with `behind` parties, to what an honest peer can
  // produce, and returns it. Returns 0 if it is not finite.
  double Bounded(double within, uint32_t behind) const;
};

PrivacyTerms PrivacyTermsOf(const v1::PrivacySpec& spec);

// What the contributors report about their updates to an entry, by peer.
using ToldUpdates = std::map<std::string, v1::Ready>;

// Returns the noise of an entry in units of the largest change that one party can make. An update
// that names no clip was clipped to `terms.clip`.
double NoiseOfEntry(const PrivacyTerms& terms, const v1::EntryHeader& header,
                    const ToldUpdates& told);

// Returns the clip that applies after an entry.
double NextClip(const PrivacyTerms& terms, double clip, const v1::EntryHeader& header,
                const ToldUpdates& told);

class PrivacyBudget {
 public:
  // `fewest` is the smallest number of parties with which an entry is committed.
  PrivacyBudget(const v1::PrivacySpec& spec, uint32_t fewest);

  bool on() const { return terms_.on(); }
  // If the clip follows a quantile, sets the current clip in this Train, and remembers it for the
  // update that answers the Train.
  void Tell(v1::Train* train);

  // Sets the noise and the next clip in the record. `told` has what the peers have reported.
  void Measure(const v1::EntryHeader& header, const ToldUpdates& told,
               v1::RoundRecord* record) const;
  // Counts the next entry, and sets the record's epsilon. If this process made the entry, Measure
  // must have set the record's noise before.
  void Note(const v1::EntryHeader& header, v1::RoundRecord* record);
  // Counts an entry from before this process started, by its record.
  void Remember(const v1::RoundRecord& record);
  // Counts entries about which nothing is known, as if each had only the fewest parties.
  void NoteUnknown(uint64_t entries);

  double spent() const;  // the epsilon spent so far
  // Returns the reason why no other entry may follow, or an empty string if one may. No entry may
  // follow if it could exceed the budget when only the fewest parties take part.
  std::string WhyEnough() const;

 private:
  ToldUpdates Sound(const v1::EntryHeader& header, const ToldUpdates& told) const;

  PrivacyTerms terms_;
  double fewest_;
  double clip_;
  ToldClips clips_;
  PrivacyAccountant accountant_;
  // The result of WhyEnough since the last entry.
  mutable std::optional<std::string> why_;
};

}  // namespace atolld
