// PrivacyBudget: what each entry of a run spends of its differential privacy, and whether another
// one may follow.
//
// Every party's update is scaled down to the clip C, and it adds noise of standard deviation
// noise x C / sqrt(n) itself, where n (`parties`) is how many parties a full round has: the sum of
// a full round has noise x C, as if one trusted place had added it. An entry to which fewer came
// has less, and spends more. Of the contributors whose updates a chunk took in, each with weight w,
// scale c and p parties behind it, the share of one party is f = w c / p, and the noise in units of
// the largest change that one party can make is
//   noise x sqrt(sum of p f^2 / n) / (largest f)
// What an entry is counted at is the least of its chunks.
//
// A peer that hosts p parties sends the mean of p clipped updates, so it adds
// noise x C / sqrt(n p) to that, once.
//
// Where the clip follows a quantile g (Andrew et al., "Differentially Private Learning with
// Adaptive Clipping", arXiv:1905.03871, algorithm 1), each contributor also tells of how many of
// its p parties the update was no longer than its clip, less p / 2, with noise of s sqrt(p / n),
// where s = n / 20. With b the sum of these over all parties behind an entry, plus 1/2, the clip
// becomes C exp(-0.2 (b - g)). That count is paid for out of `noise` (theorem 1 there): updates get
// (noise^-2 - (2 s)^-2)^(-1/2) instead, which needs n > 10 noise. An update that comes late was
// clipped to an older C: each share above is times its C, and an entry counts at no more than
// noise x sqrt(its parties / n), which is what the counts have.
//
// Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/privacy/accountant.h"

namespace atolld {

struct PrivacyTerms {
  double clip = 0;      // that the run begins with; 0: none of it
  double noise = 0;     // of a full round
  double quantile = 0;  // 0: the clip stays
  double sampling = 1;  // probability that a party is in a round
  double parties = 1;   // of a full round
  double delta = 0;
  double epsilon = 0;  // 0: it is told alone

  bool on() const { return clip > 0; }
  // Of what one contributor adds to the mean of so many parties' updates, all no longer than
  // `length`; 0 parties stand for 1.
  double Deviation(double length, uint32_t behind) const;
  // Of what it adds to its count.
  double CountDeviation(uint32_t behind) const;
  // Of a round to which so many parties come, all alike.
  double NoiseOf(double present) const;
};

PrivacyTerms PrivacyTermsOf(const v1::PrivacySpec& spec);

// What the contributors to an entry told of their updates, by peer.
using ToldUpdates = std::map<std::string, v1::Ready>;

// In units of the largest change that one party can make. Whoever told no clip was held to
// `terms.clip`.
double NoiseOfEntry(const PrivacyTerms& terms, const v1::EntryHeader& header,
                    const ToldUpdates& told);

// What the clip becomes after an entry.
double NextClip(const PrivacyTerms& terms, double clip, const v1::EntryHeader& header,
                const ToldUpdates& told);

class PrivacyBudget {
 public:
  // `fewest`: parties without which no entry is committed.
  PrivacyBudget(const v1::PrivacySpec& spec, uint32_t fewest);

  bool on() const { return terms_.on(); }
  // To which updates are scaled down now, where that follows a quantile.
  void Tell(v1::Train* train) const;

  // Sets the record's noise, and the clip that is to follow.
  void Measure(const v1::EntryHeader& header, const ToldUpdates& told,
               v1::RoundRecord* record) const;
  // The next entry's, which Measure has seen if this process has made it; sets the record's
  // epsilon.
  void Note(const v1::EntryHeader& header, v1::RoundRecord* record);
  // The record of an earlier life of this process.
  void Remember(const v1::RoundRecord& record);
  // Entries of which nothing is known: each counts as one to which the fewest came.
  void NoteUnknown(uint64_t entries);

  double spent() const;  // epsilon
  // Why no other entry may follow: it could spend more than the budget if only the fewest came.
  // Empty: one may.
  std::string WhyEnough() const;

 private:
  PrivacyTerms terms_;
  double fewest_;
  double clip_;
  PrivacyAccountant accountant_;
  mutable std::optional<std::string> why_;  // what WhyEnough has found since the last entry
};

}  // namespace atolld
