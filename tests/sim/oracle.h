// Oracle: what an entry's averaged bytes and the state after it must be, computed a second time.
//
// It shares no code with what it judges: scalar loops, the formulas of docs/protocol.md in their
// plainest form, one rounding an operation; chunks by the unit tests' oracles of the codecs. It is
// fed the updates as trainers handed them over and the committed headers, and nothing else. Pure;
// slow where that is simpler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

float FloatOf(uint32_t bits);

class Oracle {
 public:
  // The encoded chunks of one update, in grid order.
  using Chunks = std::vector<std::string>;

  // `spec` names the codecs, the chunks and the outer rule; `initial` is theta of version 0.
  // `fragments`: what OracleFragments says.
  Oracle(const v1::RunSpec& spec, absl::Span<const float> initial,
         std::vector<std::vector<size_t>> fragments = {});

  uint64_t version() const { return version_; }
  const std::vector<float>& theta() const { return theta_; }
  // Of the outer rule: the momentum, or the first moment; the second moment, less tau^2. Empty: the
  // rule has none.
  const std::vector<float>& momentum() const { return momentum_; }
  const std::vector<float>& second_moment() const { return second_moment_; }
  const std::vector<float>& delta_sum() const { return delta_sum_; }  // of "delayed_nesterov" alone
  const std::vector<float>& control() const { return control_; }      // empty: the run has none

  // Of the fragments of the run, which one entry `version` covers; 0 where there are none.
  size_t FragmentOf(uint64_t version) const;
  // The values that entry `version` covers, one after another; and put back into all of them. What
  // is said of an update or a residual below is of these.
  std::vector<float> Covered(uint64_t version, absl::Span<const float> all) const;
  void PutBack(uint64_t version, absl::Span<const float> covered, std::vector<float>* all) const;

  // What a peer sends of an update that was trained on samples from `first_sample` on. No chunks if
  // a value is not finite.
  // `slow`: in the codec of slow lines.
  Chunks Encode(const std::string& peer, uint64_t first_sample, absl::Span<const float> values,
                bool slow = false) const;

  // a = update + decay x residual.
  std::vector<float> WithResidual(std::vector<float> update,
                                  absl::Span<const float> residual) const;

  // Of the chunks of so many values; distances are of what they decode to from the mean of the
  // newest entry.
  double SquaredNorm(const Chunks& chunks, size_t values) const;
  double SquaredDistance(const Chunks& chunks) const;

  // What the entry's payload is: the mean of `contributions` (in the order of the header's
  // contributors) by the header's bitmaps, weights, scales and partial means.
  std::string Payload(const v1::EntryHeader& header,
                      const std::vector<const Chunks*>& contributions) const;

  // An update whose party has masked it: its values, and by what a weight counts in the ring.
  struct MaskedUpdate {
    std::string peer;
    uint64_t first_sample = 0;
    const std::vector<float>* values = nullptr;
    int weight_exponent = 0;
    bool first_range = false;  // as MaskAttempt's
  };
  // The same of masked updates: the mean of the sums of integers that would come of them without
  // masks, whatever the masks were.
  std::string MaskedPayload(const v1::EntryHeader& header,
                            const std::vector<MaskedUpdate>& updates) const;

  // theta, momentum and control after the entry that Payload() was made for.
  void Step(const v1::EntryHeader& header, const std::string& payload);
  // Of the mean of the newest entry.
  double SquaredMean() const;

  // What a peer gave to the newest entry: its chunks, the scale that the entry took them by, and
  // its share of the weights.
  struct Given {
    Chunks chunks;
    float share = 0;
    float scale = 1;
  };
  // The state after the next entry as a peer guesses it that offers `now` for that: the newest mean
  // with its own part, if that is known, replaced by the new one; `now` alone without a mean or
  // where `knows_mean` is not set. The step is that of an entry of new updates by the run's
  // settings, and no correction.
  std::vector<float> Guess(const v1::OuterSpec& outer, const Chunks& now, const Given* before,
                           bool knows_mean) const;

  // The residual of the contributor at `position` once the entry is committed: `values`, less what
  // was sent and taken in.
  std::vector<float> Residual(const v1::EntryHeader& header, int position,
                              absl::Span<const float> values, const Chunks& sent) const;

 private:
  // Of a vector of so many values.
  size_t Elements(size_t values, size_t chunk) const;
  size_t Count(size_t values) const;
  size_t Covers(uint64_t version) const;  // number of values
  size_t PlaceOf(uint64_t version, size_t at) const;
  // `key` counts only where the run rounds stochastically and the codec can.
  bool Stochastic(const std::string& codec) const;
  std::string EncodeUpdate(absl::Span<const float> values, uint64_t key, bool slow) const;
  std::vector<float> DecodeUpdate(const std::string& bytes, size_t elements) const;
  std::string EncodeMean(absl::Span<const float> mean, uint64_t key) const;
  std::vector<float> CentreOf(size_t chunk, size_t elements) const;
  double RingStep(size_t block, bool first_range) const;
  double RingCode(const MaskedUpdate& update, float weight, double step, size_t chunk,
                  size_t at) const;
  // Moves one value of theta, and its buffers.
  void StepControl(const v1::EntryHeader& header, float mean, size_t at);
  void StepValue(const v1::EntryHeader& header, float mean, size_t at);
  void AdaptiveStep(const v1::EntryHeader& header, float mean, size_t at);
  float DelayedDirection(const v1::EntryHeader& header, float mean, size_t at);
  float HoldMomentum(const v1::EntryHeader& header, size_t at);
  std::string MeanOfChunk(const v1::EntryHeader& header,
                          const std::vector<const Chunks*>& contributions, size_t chunk) const;

  const std::string update_codec_;
  const std::string slow_codec_;  // empty: there is none
  const std::string mean_codec_;
  const bool stochastic_;
  const uint64_t seed_;
  float decay_ = 1;
  const std::string outer_;
  const bool adaptive_;
  const size_t chunk_elements_;
  double first_range_ = 1;  // of ring codes before there is a mean
  const std::string rule_;
  const size_t faulty_;
  const std::vector<std::vector<size_t>> fragments_;
  uint64_t version_ = 0;
  std::vector<float> theta_;
  std::vector<float> momentum_;
  std::vector<float> second_moment_;
  std::vector<float> delta_sum_;
  std::vector<float> control_;
  std::vector<float> mean_;  // of the newest entry; empty before the first
};

// Whose chunks entry `header` took in for `chunk`, and which of them came in partial means.
struct ChunkSources {
  std::string contributors;           // bitmap
  std::vector<std::string> partials;  // bitmaps
};
ChunkSources SourcesOf(const v1::EntryHeader& header, size_t chunk);

}  // namespace atolld
