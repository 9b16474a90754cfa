#include "tests/sim/oracle.h"

#include <cmath>
#include <cstring>

namespace atolld {
namespace {

constexpr size_t kBlock = 256;  // values of one int8 scale

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

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

}  // namespace

ChunkSources SourcesOf(const v1::EntryHeader& header, size_t chunk) {
  for (const v1::ShardRecord& shard : header.shards()) {
    if (chunk < shard.first_chunk() || chunk >= size_t{shard.first_chunk()} + shard.chunks())
      continue;
    for (const v1::ChunkRecord& one : shard.exceptions()) {
      if (one.chunk() != chunk) continue;
      return {one.contributors(), {one.partials().begin(), one.partials().end()}};
    }
    return {shard.contributors(), {shard.partials().begin(), shard.partials().end()}};
  }
  return {};
}

Oracle::Oracle(const v1::RunSpec& spec, absl::Span<const float> initial)
    : int8_(spec.exchange().codec() == "int8"),
      nesterov_(spec.outer().rule() == "nesterov"),
      chunk_elements_(spec.exchange().chunk_elements()),
      theta_(initial.begin(), initial.end()),
      momentum_(nesterov_ ? initial.size() : 0, 0.0f) {}

size_t Oracle::Count() const { return (theta_.size() + chunk_elements_ - 1) / chunk_elements_; }

size_t Oracle::Elements(size_t chunk) const {
  const size_t rest = theta_.size() - chunk * chunk_elements_;
  return rest < chunk_elements_ ? rest : chunk_elements_;
}

// int8: all scales of the chunk, then all codes; a scale is the block's largest magnitude / 127.
std::string Oracle::EncodeChunk(absl::Span<const float> values) const {
  if (!int8_) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  std::string scales;
  std::string codes;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    float largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
    float scale = std::min(largest / 127.0f, 0x1.020406p+121f);
    if (scale < 0x1p-100f) scale = 0;
    const float inverse = scale == 0 ? 0 : 1.0f / scale;
    AppendRaw(&scale, sizeof(scale), &scales);
    for (size_t i = begin; i < end; ++i) {
      codes.push_back(static_cast<char>(static_cast<int>(std::nearbyint(values[i] * inverse))));
    }
  }
  return scales + codes;
}

std::vector<float> Oracle::DecodeChunk(const std::string& bytes, size_t elements) const {
  std::vector<float> values(elements);
  if (!int8_) {
    std::memcpy(values.data(), bytes.data(), elements * sizeof(float));
    return values;
  }
  const size_t blocks = (elements + kBlock - 1) / kBlock;
  for (size_t i = 0; i < elements; ++i) {
    float scale;
    std::memcpy(&scale, bytes.data() + i / kBlock * sizeof(scale), sizeof(scale));
    const int code = static_cast<signed char>(bytes[blocks * sizeof(scale) + i]);
    values[i] = static_cast<float>(code) * scale;
  }
  return values;
}

Oracle::Chunks Oracle::Encode(absl::Span<const float> values) const {
  for (const float value : values) {
    if (!std::isfinite(value)) return {};
  }
  Chunks chunks;
  for (size_t chunk = 0; chunk < Count(); ++chunk) {
    chunks.push_back(EncodeChunk(values.subspan(chunk * chunk_elements_, Elements(chunk))));
  }
  return chunks;
}

// (sum of W_p x piece_p) x (1 / sum of W_p), in the order of the pieces.
std::vector<float> Oracle::Mean(const std::vector<Piece>& pieces, size_t elements) const {
  float weights = 0;
  for (const Piece& piece : pieces) weights = weights + piece.weight;
  const float factor = 1.0f / weights;
  std::vector<float> mean(elements, 0.0f);
  for (const Piece& piece : pieces) {
    for (size_t i = 0; i < elements; ++i) {
      const float part = piece.weight * piece.values[i];
      mean[i] = mean[i] + part;
    }
  }
  for (float& value : mean) value = value * factor;
  return mean;
}

// A contributor's chunk is a piece of its own unless a partial mean covers it. Pieces stand in the
// order of their first contributor.
std::string Oracle::MeanOfChunk(const v1::EntryHeader& header,
                                const std::vector<const Chunks*>& contributions,
                                size_t chunk) const {
  const size_t elements = Elements(chunk);
  const ChunkSources sources = SourcesOf(header, chunk);
  const size_t count = contributions.size();
  std::vector<bool> done(count, false);
  std::vector<Piece> pieces;
  for (size_t first = 0; first < count; ++first) {
    if (!Bit(sources.contributors, first) || done[first]) continue;
    const std::string* group = nullptr;
    for (const std::string& partial : sources.partials) {
      if (Bit(partial, first)) group = &partial;
    }
    std::vector<Piece> members;
    float weight = 0;
    for (size_t i = first; i < count; ++i) {
      if (i != first && (group == nullptr || !Bit(*group, i))) continue;
      done[i] = true;
      const float own = FloatOf(header.contributors(static_cast<int>(i)).weight_bits());
      weight = weight + own;
      members.push_back({DecodeChunk((*contributions[i])[chunk], elements), own});
    }
    if (group == nullptr) {
      pieces.push_back(members.front());
    } else {
      pieces.push_back({DecodeChunk(EncodeChunk(Mean(members, elements)), elements), weight});
    }
  }
  return EncodeChunk(Mean(pieces, elements));
}

std::string Oracle::Payload(const v1::EntryHeader& header,
                            const std::vector<const Chunks*>& contributions) const {
  const auto count = static_cast<uint32_t>(Count());
  std::string payload;
  std::string bytes;
  AppendRaw(&count, sizeof(count), &payload);
  for (size_t chunk = 0; chunk < count; ++chunk) {
    const std::string mean = MeanOfChunk(header, contributions, chunk);
    const auto size = static_cast<uint32_t>(mean.size());
    AppendRaw(&size, sizeof(size), &payload);
    bytes += mean;
  }
  return payload + bytes;
}

// nesterov: buffer = momentum x buffer + mean; theta = theta - rate x (mean + momentum x buffer).
// average: theta = theta - rate x mean.
void Oracle::Step(const v1::EntryHeader& header, const std::string& payload) {
  const float rate = Scalar(header, "learning_rate");
  const float momentum = nesterov_ ? Scalar(header, "momentum") : 0;
  size_t at = sizeof(uint32_t) * (1 + Count());
  for (size_t chunk = 0; chunk < Count(); ++chunk) {
    uint32_t size;
    std::memcpy(&size, payload.data() + sizeof(size) * (1 + chunk), sizeof(size));
    const std::vector<float> mean = DecodeChunk(payload.substr(at, size), Elements(chunk));
    at += size;
    for (size_t i = 0; i < mean.size(); ++i) {
      float& theta = theta_[chunk * chunk_elements_ + i];
      float direction = mean[i];
      if (nesterov_) {
        float& buffer = momentum_[chunk * chunk_elements_ + i];
        const float kept = momentum * buffer;
        buffer = kept + mean[i];
        const float ahead = momentum * buffer;
        direction = mean[i] + ahead;
      }
      const float change = rate * direction;
      theta = theta - change;
    }
  }
  ++version_;
}

std::vector<float> Oracle::Residual(const v1::EntryHeader& header, int position,
                                    absl::Span<const float> values, const Chunks& sent) const {
  std::vector<float> residual(values.begin(), values.end());
  for (size_t chunk = 0; chunk < Count(); ++chunk) {
    if (!Bit(SourcesOf(header, chunk).contributors, static_cast<size_t>(position))) continue;
    const std::vector<float> taken = DecodeChunk(sent[chunk], Elements(chunk));
    for (size_t i = 0; i < taken.size(); ++i) {
      float& value = residual[chunk * chunk_elements_ + i];
      value = value - taken[i];
    }
  }
  return residual;
}

}  // namespace atolld
