// Oracle: recomputes an entry's averaged bytes and the state after it.
//
// It shares no code with what it checks: it uses scalar loops and the formulas of docs/protocol.md
// in their plainest form, with one rounding per operation, and the codecs' oracles of the unit
// tests for chunks. Its only input is the updates as trainers handed them over, and the committed
// headers. Pure. Slow where slow code is simpler.
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

  // `spec` has the codecs, the chunks and the outer rule; `initial` is theta of version 0;
  // `fragments` comes from OracleFragments, and `parts` from OracleParts.
  Oracle(const v1::RunSpec& spec, absl::Span<const float> initial,
         std::vector<std::vector<size_t>> fragments = {}, std::vector<size_t> parts = {});

  uint64_t version() const { return version_; }
  const std::vector<float>& theta() const { return theta_; }
  // The next two return the buffers of the outer rule, or an empty vector if the rule has none: the
  // momentum or the first moment, and the second moment minus tau^2.
  const std::vector<float>& momentum() const { return momentum_; }
  const std::vector<float>& second_moment() const { return second_moment_; }
  const std::vector<float>& delta_sum() const {
    return delta_sum_;
  }  // used only by
     // "delayed_nesterov"
  const std::vector<float>& control() const {
    return control_;
  }  // empty if the run has no
     // control variates

  // Returns the fragment that entry `version` covers; 0 if there are no fragments.
  size_t FragmentOf(uint64_t version) const;
  // Covered returns the values that entry `version` covers, one after another, with zeros where the
  // entry has values of no tensor. PutBack writes them into the whole vector. Updates and residuals
  // below contain these values only.
  std::vector<float> Covered(uint64_t version, absl::Span<const float> all) const;
  void PutBack(uint64_t version, absl::Span<const float> covered, std::vector<float>* all) const;

  // Returns what a peer sends for an update that was trained on samples from `first_sample` on, or
  // no chunks if a value is not finite. If `slow` is true, it uses the codec for slow lines. If the
  // run has experts, the chunks of those that are not in the bitmap `owned` are empty.
  Chunks Encode(const std::string& peer, uint64_t first_sample, absl::Span<const float> values,
                bool slow = false, const std::string& owned = "") const;

  // Returns update + decay x residual.
  std::vector<float> WithResidual(std::vector<float> update,
                                  absl::Span<const float> residual) const;

  // SquaredNorm returns the squared norm of chunks of `values` values. SquaredDistance returns the
  // squared distance of the decoded chunks from the mean of the newest entry.
  double SquaredNorm(const Chunks& chunks, size_t values) const;
  double SquaredDistance(const Chunks& chunks) const;

  // Returns the entry's payload: the mean of `contributions` (in the order of the header's
  // contributors) according to the header's bitmaps, weights, scales and partial means.
  std::string Payload(const v1::EntryHeader& header,
                      const std::vector<const Chunks*>& contributions) const;

  // An update that its party has masked: its values, and the factor of its weight in the ring.
  struct MaskedUpdate {
    std::string peer;
    uint64_t first_sample = 0;
    const std::vector<float>* values = nullptr;
    int weight_exponent = 0;
    bool first_range = false;  // see MaskAttempt
  };
  // Returns the payload of masked updates. It adds up the integers without masks, because the masks
  // cancel out in the sums.
  std::string MaskedPayload(const v1::EntryHeader& header,
                            const std::vector<MaskedUpdate>& updates) const;

  // Advances theta, momentum and control by the entry for which Payload() was made.
  void Step(const v1::EntryHeader& header, const std::string& payload);
  // Returns the squared norm of the mean of the newest entry.
  double SquaredMean() const;

  // What a peer gave to the newest entry: its chunks, the scale with which the entry took them, and
  // its share of the weights.
  struct Given {
    Chunks chunks;
    float share = 0;
    float scale = 1;
  };
  // Returns the state after the next entry, as guessed by a peer that offers `now` for that entry:
  // its own part in the newest mean (`before`) is replaced by the new one. If there is no mean, or
  // `knows_mean` is false, only `now` is used. The step is that of an entry of new updates with the
  // run's settings and without corrections.
  std::vector<float> Guess(const v1::OuterSpec& outer, const Chunks& now, const Given* before,
                           bool knows_mean) const;

  // Returns the residual of the contributor at `position` once the entry is committed: `values`
  // minus what was sent and accepted, scaled down as the update was.
  std::vector<float> Residual(const v1::EntryHeader& header, int position,
                              absl::Span<const float> values, const Chunks& sent) const;

 private:
  // These functions are for a vector of `values` values.
  size_t Elements(size_t values, size_t chunk) const;
  size_t Count(size_t values) const;
  size_t Covers(uint64_t version) const;  // the number of values that the entry covers
  size_t PlaceOf(uint64_t version, size_t at) const;
  // Returns true if no owner of the chunk's expert has contributed to the entry.
  bool Unowned(const v1::EntryHeader& header, size_t chunk) const;
  float ShareOf(const v1::EntryHeader& header, size_t chunk) const;
  // Returns true if the run rounds stochastically and the codec supports it. Otherwise the `key`
  // has no effect.
  bool Stochastic(const std::string& codec) const;
  std::string EncodeUpdate(absl::Span<const float> values, uint64_t key, bool slow) const;
  std::vector<float> DecodeUpdate(const std::string& bytes, size_t elements) const;
  std::string EncodeMean(absl::Span<const float> mean, uint64_t key) const;
  std::vector<float> CentreOf(size_t chunk, size_t elements) const;
  double RingStep(size_t block, bool first_range) const;
  double RingCode(const MaskedUpdate& update, float weight, double step, size_t chunk,
                  size_t at) const;
  // These functions step one value of theta and its buffers.
  void StepControl(const v1::EntryHeader& header, float mean, size_t at);
  void StepValue(const v1::EntryHeader& header, float mean, size_t at);
  void AdaptiveStep(const v1::EntryHeader& header, float mean, size_t at);
  float DelayedDirection(const v1::EntryHeader& header, float mean, size_t at);
  float HoldMomentum(const v1::EntryHeader& header, size_t at);
  std::string MeanOfChunk(const v1::EntryHeader& header,
                          const std::vector<const Chunks*>& contributions, size_t chunk) const;

  const std::string update_codec_;
  const std::string slow_codec_;  // Empty if there is none.
  const std::string mean_codec_;
  const bool stochastic_;
  const uint64_t seed_;
  float decay_ = 1;
  const std::string outer_;
  const bool adaptive_;
  const size_t chunk_elements_;
  double first_range_ = 1;  // The range of ring codes before there is a mean.
  const std::string rule_;
  const size_t faulty_;
  const std::vector<std::vector<size_t>> fragments_;
  const std::vector<size_t> parts_;  // of each chunk; empty if the run has no experts
  uint64_t version_ = 0;
  std::vector<float> theta_;
  std::vector<float> momentum_;
  std::vector<float> second_moment_;
  std::vector<float> delta_sum_;
  std::vector<float> control_;
  std::vector<float> mean_;  // The newest entry's mean; empty before the first entry.
};

// The contributors from which an entry accepted a given chunk, and those that it has through
// partial means.
struct ChunkSources {
  std::string contributors;           // a bitmap
  std::vector<std::string> partials;  // one bitmap for each partial mean
};
ChunkSources SourcesOf(const v1::EntryHeader& header, size_t chunk);

}  // namespace atolld
