#include "tests/sim/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "compression/base/check.h"
#include "membership/history/digest.h"
#include "tests/sim/oracle_fragments.h"
#include "tests/sim/oracle_rules.h"
#include "tests/unit/compression/codec_reference.h"

namespace atolld {
namespace {

// For masked updates: the number of values that share a step, and the codes in each direction, so
// that 255 of them fit in 31 bits.
constexpr size_t kRingBlock = 256;
constexpr double kRingCodes = 8421504;

bool Bit(const std::string& bitmap, size_t i) {
  return i / 8 < bitmap.size() && (static_cast<unsigned char>(bitmap[i / 8]) >> (i % 8) & 1) != 0;
}

void AppendRaw(const void* from, size_t bytes, std::string* to) {
  to->append(static_cast<const char*>(from), bytes);
}

float Scalar(const v1::EntryHeader& header, const std::string& name) {
  for (const v1::Scalar& scalar : header.scalars()) {
    if (scalar.name() == name) return FloatOf(scalar.bits());
  }
  return std::nanf("");
}

bool Has(const v1::EntryHeader& header, const std::string& name) {
  return std::any_of(header.scalars().begin(), header.scalars().end(),
                     [&](const v1::Scalar& scalar) { return scalar.name() == name; });
}

std::vector<float> Decode(const std::string& codec, const std::string& bytes, size_t elements) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return ReferenceDecode(codec, {data, bytes.size()}, elements);
}

double SquaredNormOf(const std::string& codec, const std::string& bytes, size_t elements) {
  if (codec != "int8" && codec != "int4") {
    return OracleSquares(Decode(codec, bytes, elements), nullptr);
  }
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return ReferenceSquaredNorm(codec, {data, bytes.size()}, elements);
}

std::string PayloadOf(const std::vector<std::string>& chunks) {
  const auto count = static_cast<uint32_t>(chunks.size());
  std::string payload;
  std::string bytes;
  AppendRaw(&count, sizeof(count), &payload);
  for (const std::string& chunk : chunks) {
    const auto size = static_cast<uint32_t>(chunk.size());
    AppendRaw(&size, sizeof(size), &payload);
    bytes += chunk;
  }
  return payload + bytes;
}

// Returns a peer's part of a rounding's key: the head of its name's digest.
uint64_t PartOf(const std::string& peer) {
  const Digest digest = Sha256({reinterpret_cast<const uint8_t*>(peer.data()), peer.size()});
  uint64_t part;
  std::memcpy(&part, digest.data(), sizeof(part));
  return part;
}

}  // namespace

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

ChunkSources SourcesOf(const v1::EntryHeader& header, size_t chunk) {
  for (const v1::ShardRecord& shard : header.records().shards()) {
    size_t end = shard.first_chunk();
    for (const v1::ChunkRun& run : shard.runs()) {
      end += run.chunks();
      if (chunk < shard.first_chunk() || chunk >= end) continue;
      const v1::ContributorSet& set = header.records().sets(static_cast<int>(run.set()));
      return {set.contributors(), {set.partials().begin(), set.partials().end()}};
    }
  }
  return {};
}

Oracle::Oracle(const v1::RunSpec& spec, absl::Span<const float> initial,
               std::vector<std::vector<size_t>> fragments, std::vector<size_t> parts)
    : update_codec_(spec.exchange().codec()),
      slow_codec_(spec.exchange().slow_codec()),
      mean_codec_(spec.exchange().upper_codec().empty() ? update_codec_
                                                        : spec.exchange().upper_codec()),
      stochastic_(spec.exchange().stochastic_rounding()),
      seed_(spec.seed()),
      outer_(spec.outer().rule()),
      adaptive_(outer_ == "adagrad" || outer_ == "adam" || outer_ == "yogi" || outer_ == "cgad"),
      chunk_elements_(spec.exchange().chunk_elements()),
      rule_(spec.exchange().aggregation()),
      faulty_(spec.exchange().faulty()),
      fragments_(std::move(fragments)),
      parts_(std::move(parts)),
      theta_(initial.begin(), initial.end()),
      momentum_(outer_ == "average" ? 0 : initial.size(), 0.0f),
      second_moment_(adaptive_ ? initial.size() : 0, 0.0f),
      delta_sum_(outer_ == "delayed_nesterov" ? initial.size() : 0, 0.0f),
      control_(spec.inner().control_variates() ? initial.size() : 0, 0.0f) {
  const uint32_t decay = spec.exchange().feedback_decay_bits();
  if (decay != 0) decay_ = FloatOf(decay);
  const double clip = spec.inner().gradient_clip();
  const double moved = 16 * spec.inner().learning_rate() * spec.inner().steps();
  if (moved > 0) first_range_ = static_cast<float>(moved * (clip > 1 ? clip : 1));
}

size_t Oracle::Count(size_t values) const {
  return (values + chunk_elements_ - 1) / chunk_elements_;
}

size_t Oracle::Elements(size_t values, size_t chunk) const {
  const size_t rest = values - chunk * chunk_elements_;
  return rest < chunk_elements_ ? rest : chunk_elements_;
}

size_t Oracle::FragmentOf(uint64_t version) const {
  return fragments_.empty() ? 0 : (version - 1) % fragments_.size();
}

size_t Oracle::Covers(uint64_t version) const {
  return fragments_.empty() ? theta_.size() : fragments_[FragmentOf(version)].size();
}

size_t Oracle::PlaceOf(uint64_t version, size_t at) const {
  return fragments_.empty() ? at : fragments_[FragmentOf(version)][at];
}

std::vector<float> Oracle::Covered(uint64_t version, absl::Span<const float> all) const {
  std::vector<float> covered;
  for (size_t i = 0; i < Covers(version); ++i) {
    const size_t place = PlaceOf(version, i);
    covered.push_back(place == kNoPlace ? 0.0f : all[place]);
  }
  return covered;
}

void Oracle::PutBack(uint64_t version, absl::Span<const float> covered,
                     std::vector<float>* all) const {
  CHECK(covered.size() == Covers(version) && all->size() == theta_.size());
  for (size_t i = 0; i < covered.size(); ++i) {
    const size_t place = PlaceOf(version, i);
    if (place != kNoPlace) (*all)[place] = covered[i];
  }
}

bool Oracle::Unowned(const v1::EntryHeader& header, size_t chunk) const {
  return !parts_.empty() &&
         SourcesOf(header, chunk).contributors.find_first_not_of('\0') == std::string::npos;
}

// Where all parts are slices of adapters, those who do not train a slice count as zeros in it.
float Oracle::ShareOf(const v1::EntryHeader& header, size_t chunk) const {
  if (parts_.empty() || parts_.front() == 0) return 1;
  const std::string& set = SourcesOf(header, chunk).contributors;
  float here = 0;
  float elsewhere = 0;
  for (int i = 0; i < header.contributors_size(); ++i) {
    const v1::Contributor& one = header.contributors(i);
    const float weight = FloatOf(one.weight_bits());
    if (Bit(set, static_cast<size_t>(i))) here = here + weight;
    if (!Bit(one.owned(), parts_[chunk] - 1)) elsewhere = elsewhere + weight;
  }
  const float all = here + elsewhere;
  const float inverse = 1 / all;
  return here * inverse;
}

bool Oracle::Stochastic(const std::string& codec) const {
  return stochastic_ && (codec == "int8" || codec == "int4");
}

// With two codecs the last byte names the codec.
std::string Oracle::EncodeUpdate(absl::Span<const float> values, uint64_t key, bool slow) const {
  const std::string& codec = slow && !slow_codec_.empty() ? slow_codec_ : update_codec_;
  const std::vector<uint8_t> bytes = Stochastic(codec)
                                         ? ReferenceEncodeStochastic(codec, values, key)
                                         : ReferenceEncode(codec, values);
  std::string encoded(bytes.begin(), bytes.end());
  if (!slow_codec_.empty()) encoded.push_back(slow ? 1 : 0);
  return encoded;
}

// What was not sent counts as zeros.
std::vector<float> Oracle::DecodeUpdate(const std::string& bytes, size_t elements) const {
  if (bytes.empty()) return std::vector<float>(elements, 0.0f);
  if (slow_codec_.empty()) return Decode(update_codec_, bytes, elements);
  return Decode(bytes.back() == 1 ? slow_codec_ : update_codec_, bytes.substr(0, bytes.size() - 1),
                elements);
}

std::string Oracle::EncodeMean(absl::Span<const float> mean, uint64_t key) const {
  const std::vector<uint8_t> bytes = Stochastic(mean_codec_)
                                         ? ReferenceEncodeStochastic(mean_codec_, mean, key)
                                         : ReferenceEncodeMean(mean_codec_, mean);
  return std::string(bytes.begin(), bytes.end());
}

// The chunks' keys differ by chunk, update and peer; a peer's part is the head of its name's
// digest.
Oracle::Chunks Oracle::Encode(const std::string& peer, uint64_t first_sample,
                              absl::Span<const float> values, bool slow,
                              const std::string& owned) const {
  for (const float value : values) {
    if (!std::isfinite(value)) return {};
  }
  const uint64_t of_peer = PartOf(peer);
  Chunks chunks;
  for (size_t chunk = 0; chunk < Count(values.size()); ++chunk) {
    const size_t part = parts_.empty() ? 0 : parts_[chunk];
    if (part != 0 && !Bit(owned, part - 1)) {
      chunks.emplace_back();
      continue;
    }
    chunks.push_back(
        EncodeUpdate(values.subspan(chunk * chunk_elements_, Elements(values.size(), chunk)),
                     ReferenceKey(seed_, first_sample, of_peer, chunk), slow));
  }
  return chunks;
}

std::vector<float> Oracle::WithResidual(std::vector<float> update,
                                        absl::Span<const float> residual) const {
  for (size_t i = 0; i < update.size(); ++i) {
    const float carried = decay_ * residual[i];
    update[i] = update[i] + carried;
  }
  return update;
}

double Oracle::SquaredNorm(const Chunks& chunks, size_t values) const {
  double sum = 0;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunks[chunk].empty()) continue;  // not sent
    const size_t elements = Elements(values, chunk);
    sum =
        sum + (slow_codec_.empty() ? SquaredNormOf(update_codec_, chunks[chunk], elements)
                                   : OracleSquares(DecodeUpdate(chunks[chunk], elements), nullptr));
  }
  return sum;
}

double Oracle::SquaredDistance(const Chunks& chunks) const {
  double sum = 0;
  for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunks[chunk].empty()) continue;  // not sent
    const size_t elements = Elements(Covers(version_ + 1), chunk);
    const std::vector<float> centre = CentreOf(chunk, elements);
    sum = sum + OracleSquares(DecodeUpdate(chunks[chunk], elements), &centre);
  }
  return sum;
}

// Only for a run in which all entries cover the same values: otherwise no rule has a centre.
std::vector<float> Oracle::CentreOf(size_t chunk, size_t elements) const {
  if (mean_.empty()) return std::vector<float>(elements, 0.0f);
  const auto begin = mean_.begin() + static_cast<std::ptrdiff_t>(chunk * chunk_elements_);
  return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(elements));
}

// A contributor's chunk is a piece of its own unless a partial mean covers it. Pieces are in the
// order of their first contributor; the scales are already in a partial mean.
std::string Oracle::MeanOfChunk(const v1::EntryHeader& header,
                                const std::vector<const Chunks*>& contributions,
                                size_t chunk) const {
  const uint64_t version = header.version();
  const size_t elements = Elements(Covers(version), chunk);
  const uint64_t key = ReferenceKey(seed_, version, 0, chunk);
  if (Unowned(header, chunk)) return EncodeMean(std::vector<float>(elements, 0.0f), key);
  const ChunkSources sources = SourcesOf(header, chunk);
  const size_t count = contributions.size();
  std::vector<bool> done(count, false);
  std::vector<OracleRow> pieces;
  for (size_t first = 0; first < count; ++first) {
    if (!Bit(sources.contributors, first) || done[first]) continue;
    const std::string* group = nullptr;
    for (const std::string& partial : sources.partials) {
      if (Bit(partial, first)) group = &partial;
    }
    std::vector<OracleRow> members;
    float weight = 0;
    for (size_t i = first; i < count; ++i) {
      if (i != first && (group == nullptr || !Bit(*group, i))) continue;
      done[i] = true;
      const v1::Contributor& contributor = header.contributors(static_cast<int>(i));
      const float own = FloatOf(contributor.weight_bits());
      weight = weight + own;
      members.push_back({DecodeUpdate((*contributions[i])[chunk], elements), own,
                         contributor.scale_bits() == 0 ? 1 : FloatOf(contributor.scale_bits())});
    }
    if (group == nullptr) {
      pieces.push_back(members.front());
    } else {
      const uint64_t part = ~PartOf(header.contributors(static_cast<int>(first)).peer());
      const std::string partial = EncodeMean(OracleWeightedMean(members, nullptr),
                                             ReferenceKey(seed_, version, part, chunk));
      pieces.push_back({Decode(mean_codec_, partial, elements), weight, 1});
    }
  }
  const bool centred = header.clipping_steps() == 1;
  const std::vector<float> centre = centred ? CentreOf(chunk, elements) : std::vector<float>();
  const bool weighted = rule_.empty() || rule_ == "mean" || rule_ == "centred_clipping";
  return EncodeMean(weighted ? OracleWeightedMean(pieces, centred ? &centre : nullptr)
                             : OracleRobustMean(rule_, faulty_, pieces),
                    key);
}

std::string Oracle::Payload(const v1::EntryHeader& header,
                            const std::vector<const Chunks*>& contributions) const {
  std::vector<std::string> chunks;
  for (size_t chunk = 0; chunk < Count(Covers(header.version())); ++chunk) {
    chunks.push_back(MeanOfChunk(header, contributions, chunk));
  }
  return PayloadOf(chunks);
}

// Returns the least power of two with which kRingCodes of them cover 64 times the root mean square
// of the block in the newest mean, or of an eighth of that of all values.
double Oracle::RingStep(size_t block, bool first_range) const {
  double all = 0;
  double own = 0;
  size_t values = 0;
  for (size_t first = 0; first < mean_.size(); first += kRingBlock) {
    double sum = 0;
    const size_t end = std::min(mean_.size(), first + kRingBlock);
    for (size_t i = first; i < end; ++i) {
      sum = sum + static_cast<double>(mean_[i]) * static_cast<double>(mean_[i]);
    }
    all = all + sum;
    if (first / kRingBlock != block) continue;
    own = sum;
    values = end - first;
  }
  double range = first_range_;
  if (!first_range && all > 0 && std::isfinite(all)) {
    const double quiet = std::sqrt(all / static_cast<double>(mean_.size())) / 8;
    range = 64 * std::max(std::sqrt(own / static_cast<double>(values)), quiet);
  }
  int exponent = -149;
  while (exponent < 127 && std::ldexp(kRingCodes, exponent) < range) ++exponent;
  return std::ldexp(1.0, exponent);
}

// Returns value x weight / step, rounded, and limited to what the ring has room for.
double Oracle::RingCode(const MaskedUpdate& update, float weight, double step, size_t chunk,
                        size_t at) const {
  const auto value = static_cast<double>((*update.values)[chunk * chunk_elements_ + at]);
  const double scaled = value * static_cast<double>(weight) / step;
  double code = std::nearbyint(scaled);
  if (Stochastic(update_codec_)) {
    uint64_t h = ReferenceKey(seed_, update.first_sample, PartOf(update.peer), chunk);
    h += (static_cast<uint64_t>(at) + 1) * 0x9e3779b97f4a7c15ULL;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    h = h ^ (h >> 31);
    const double below = std::floor(scaled);
    code = std::ldexp(static_cast<double>(h >> 11), -53) < scaled - below ? below + 1 : below;
  }
  return std::min(std::max(code, -kRingCodes), kRingCodes);
}

std::string Oracle::MaskedPayload(const v1::EntryHeader& header,
                                  const std::vector<MaskedUpdate>& updates) const {
  std::vector<float> weights;
  double total = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    const float weight = FloatOf(header.contributors(static_cast<int>(i)).weight_bits());
    weights.push_back(std::min(1.0f, std::ldexp(weight, -updates[i].weight_exponent)));
    total = total + static_cast<double>(weights.back());
  }
  std::vector<std::string> chunks;
  for (size_t chunk = 0; chunk < Count(theta_.size()); ++chunk) {
    std::vector<float> mean;
    double step = 1;
    for (size_t at = 0; at < Elements(theta_.size(), chunk); ++at) {
      // A chunk's first block is the one that its first value lies in.
      if (at % kRingBlock == 0) {
        step = RingStep(chunk * chunk_elements_ / kRingBlock + at / kRingBlock,
                        updates.front().first_range);
      }
      double sum = 0;  // of integers below 2^53: exact
      for (size_t i = 0; i < updates.size(); ++i) {
        sum = sum + RingCode(updates[i], weights[i], step, chunk, at);
      }
      mean.push_back(static_cast<float>(sum * step / total));
    }
    chunks.push_back(EncodeMean(mean, ReferenceKey(seed_, header.version(), 0, chunk)));
  }
  return PayloadOf(chunks);
}

double Oracle::SquaredMean() const { return OracleSquares(mean_, nullptr); }

// adagrad: w = w + mean^2. adam: w = beta2 x w + (1 - beta2) x (mean^2 - tau^2). yogi: w moves by
// (1 - beta2) x mean^2, up where w + tau^2 is below mean^2, down where it is above. All three: m =
// momentum x m + (1 - momentum) x mean; theta = theta - (rate x m) / (sqrt(w + tau^2) + tau).
void Oracle::AdaptiveStep(const v1::EntryHeader& header, float mean, size_t at) {
  const float beta1 = Scalar(header, "momentum");
  const float tau = Scalar(header, "adaptivity");
  if (outer_ == "cgad") mean = Scalar(header, "discount") * mean;  // adam's from here on
  const float beta2 = outer_ == "adagrad" ? 0 : Scalar(header, "beta2");
  const float threshold = tau * tau;
  const float square = mean * mean;
  const float share = 1 - beta2;
  float& w = second_moment_[at];
  if (outer_ == "adagrad") {
    w = w + square;
  } else if (outer_ == "adam" || outer_ == "cgad") {
    const float kept = beta2 * w;
    const float above = square - threshold;
    const float taken = share * above;
    w = kept + taken;
  } else {
    const float v = w + threshold;
    const float change = share * square;
    if (v < square) w = w + change;
    if (v > square) w = w - change;
  }
  const float kept = beta1 * momentum_[at];
  const float rest = 1 - beta1;
  const float taken = rest * mean;
  momentum_[at] = kept + taken;
  const float v = w + threshold;
  const float root = std::sqrt(v > 0 ? v : 0.0f);
  const float numerator = Scalar(header, "learning_rate") * momentum_[at];
  const float denominator = root + tau;
  const float change = numerator / denominator;
  theta_[at] = theta_[at] - change;
}

// Limits the momentum to the most that the run allows.
float Oracle::HoldMomentum(const v1::EntryHeader& header, size_t at) {
  float& value = momentum_[at];
  if (!Has(header, "momentum_clip")) return value;
  const float most = Scalar(header, "momentum_clip");
  if (value > most) value = most;
  if (value < -most) value = -most;
  return value;
}

// An update's share moves theta at once. The momentum, and theta with it, moves when it is due, by
// the shares of N updates; what exceeds that begins the next sum.
float Oracle::DelayedDirection(const v1::EntryHeader& header, float mean, size_t at) {
  const float part = Scalar(header, "share") * mean;
  if (Scalar(header, "due") == 0) {
    delta_sum_[at] = delta_sum_[at] + part;
    return part;
  }
  const float rest = Scalar(header, "rest") * mean;
  const float over = rest == 0 ? 0 : rest;  // no -0
  const float taken = part - over;
  const float whole = delta_sum_[at] + taken;
  const float factor = Scalar(header, "momentum");
  const float kept = factor * momentum_[at];
  momentum_[at] = kept + whole;
  delta_sum_[at] = over;
  const float ahead = factor * HoldMomentum(header, at);
  return ahead + part;
}

// nesterov: buffer = momentum x buffer + mean; theta = theta - rate x (mean + momentum x buffer).
// momentum: only the buffer instead of the last factor. average: theta = theta - rate x mean.
void Oracle::StepValue(const v1::EntryHeader& header, float mean, size_t at) {
  if (Has(header, "gap")) mean = mean / Scalar(header, "gap");
  if (adaptive_) return AdaptiveStep(header, mean, at);
  float direction = mean;
  if (outer_ == "delayed_nesterov") {
    direction = DelayedDirection(header, mean, at);
  } else if (outer_ != "average") {
    const float momentum = Scalar(header, "momentum");
    const float kept = momentum * momentum_[at];
    momentum_[at] = kept + mean;
    HoldMomentum(header, at);
    const float ahead = momentum * momentum_[at];
    direction = outer_ == "nesterov" ? mean + ahead : momentum_[at];
  }
  const float change = Scalar(header, "learning_rate") * direction;
  theta_[at] = theta_[at] - change;
}

// SCAFFOLD: control = control + share x (control rate x mean - control).
void Oracle::StepControl(const v1::EntryHeader& header, float mean, size_t at) {
  if (control_.empty()) return;
  const float gradient = Scalar(header, "control_rate") * mean;
  const float away = gradient - control_[at];
  const float change = Scalar(header, "control_share") * away;
  control_[at] = control_[at] + change;
}

void Oracle::Step(const v1::EntryHeader& header, const std::string& payload) {
  const size_t covers = Covers(header.version());
  size_t at = sizeof(uint32_t) * (1 + Count(covers));
  std::vector<float> next_mean;
  for (size_t chunk = 0; chunk < Count(covers); ++chunk) {
    uint32_t size;
    std::memcpy(&size, payload.data() + sizeof(size) * (1 + chunk), sizeof(size));
    const std::vector<float> mean =
        Decode(mean_codec_, payload.substr(at, size), Elements(covers, chunk));
    at += size;
    next_mean.insert(next_mean.end(), mean.begin(), mean.end());
    if (Unowned(header, chunk)) continue;
    const float share = ShareOf(header, chunk);
    for (size_t i = 0; i < mean.size(); ++i) {
      const size_t place = PlaceOf(header.version(), chunk * chunk_elements_ + i);
      if (place == kNoPlace) continue;
      const float moved = share * mean[i];
      StepControl(header, moved, place);
      StepValue(header, moved, place);
    }
  }
  mean_ = std::move(next_mean);
  ++version_;
}

std::vector<float> Oracle::Guess(const v1::OuterSpec& outer, const Chunks& now, const Given* before,
                                 bool knows_mean) const {
  v1::EntryHeader by;
  const auto add = [&by](const char* name, uint32_t bits) {
    v1::Scalar* const scalar = by.add_scalars();
    scalar->set_name(name);
    scalar->set_bits(bits);
  };
  constexpr uint32_t kOne = 0x3f800000;
  add("learning_rate", outer.learning_rate_bits());
  add("momentum", outer.momentum_bits());
  add("beta2", outer.beta2_bits());
  add("adaptivity", outer.adaptivity_bits());
  add("discount", kOne);
  add("due", kOne);
  add("share", kOne);
  add("rest", 0);
  Oracle next = *this;
  for (size_t chunk = 0; chunk < Count(theta_.size()); ++chunk) {
    const size_t elements = Elements(theta_.size(), chunk);
    const std::vector<float> fresh = DecodeUpdate(now[chunk], elements);
    const bool known = knows_mean && !mean_.empty();
    const std::vector<float> stale = known && before != nullptr
                                         ? DecodeUpdate(before->chunks[chunk], elements)
                                         : std::vector<float>();
    for (size_t i = 0; i < elements; ++i) {
      const size_t at = chunk * chunk_elements_ + i;
      float mean = known ? mean_[at] : fresh[i];
      if (!stale.empty()) {
        const float gave = before->scale * stale[i];
        const float away = fresh[i] - gave;
        const float more = before->share * away;
        mean = mean + more;
      }
      next.StepValue(by, mean, at);
    }
  }
  return next.theta_;
}

std::vector<float> Oracle::Residual(const v1::EntryHeader& header, int position,
                                    absl::Span<const float> values, const Chunks& sent) const {
  std::vector<float> residual(values.begin(), values.end());
  for (size_t chunk = 0; chunk < Count(values.size()); ++chunk) {
    if (!Bit(SourcesOf(header, chunk).contributors, static_cast<size_t>(position))) continue;
    const std::vector<float> taken = DecodeUpdate(sent[chunk], Elements(values.size(), chunk));
    for (size_t i = 0; i < taken.size(); ++i) {
      float& value = residual[chunk * chunk_elements_ + i];
      value = value - taken[i];
    }
  }
  const uint32_t scale = header.contributors(position).scale_bits();
  if (scale == 0) return residual;
  for (float& value : residual) value = FloatOf(scale) * value;
  return residual;
}

}  // namespace atolld
