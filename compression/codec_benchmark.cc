#include "compression/codec_benchmark.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "compression/zstd_frame.h"

namespace atolld {
namespace {

// Returns the next value of SplitMix64 (Steele, Lea, Flood 2014), as a number in (0, 1).
double NextUniform(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  return (static_cast<double>(mixed >> 11) + 0.5) * 0x1p-53;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double RelativeError(absl::Span<const float> values, absl::Span<const float> decoded) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const double difference = static_cast<double>(decoded[i]) - value;
    error += difference * difference;
    norm += value * value;
  }
  return norm == 0 ? 0 : std::sqrt(error / norm);
}

// The buffers of one codec. Encode and Decode do all the work that a chunk needs on its way to the
// wire and back.
class Bench {
 public:
  Bench(const WireCodec& codec, size_t elements)
      : codec_(codec), encoded_(codec.codec->MaxEncodedBytes(elements)), decoded_(elements) {}

  absl::Status Encode(absl::Span<const float> values) {
    ASSIGN_OR_RETURN(bytes_, codec_.codec->Encode(values, absl::MakeSpan(encoded_)));
    if (!codec_.zstd) return absl::OkStatus();
    ASSIGN_OR_RETURN(frame_, ZstdCompress(absl::MakeConstSpan(encoded_).first(bytes_)));
    return absl::OkStatus();
  }

  absl::Status Decode() {
    if (!codec_.zstd) {
      return codec_.codec->DecodeToMemory(absl::MakeConstSpan(encoded_).first(bytes_),
                                          absl::MakeSpan(decoded_));
    }
    const auto* frame = reinterpret_cast<const uint8_t*>(frame_.data());
    const absl::StatusOr<std::string> content =
        ZstdDecompress({frame, frame_.size()}, encoded_.size());
    if (!content.ok()) return content.status();
    const auto* bytes = reinterpret_cast<const uint8_t*>(content->data());
    return codec_.codec->DecodeToMemory({bytes, content->size()}, absl::MakeSpan(decoded_));
  }

  void Copy(absl::Span<const float> values) {
    std::memcpy(decoded_.data(), values.data(), values.size() * sizeof(float));
  }

  absl::Span<const float> decoded() const { return decoded_; }
  size_t wire_bytes() const { return codec_.zstd ? frame_.size() : bytes_; }

 private:
  const WireCodec codec_;
  std::vector<uint8_t> encoded_;
  std::vector<float> decoded_;
  std::string frame_;
  size_t bytes_ = 0;
};

}  // namespace

std::vector<float> GaussianValues(size_t elements, uint64_t seed) {
  constexpr double kTwoPi = 6.283185307179586;
  std::vector<float> values(elements);
  uint64_t state = seed;
  for (size_t i = 0; i < elements; i += 2) {  // Box and Muller 1958
    const double radius = std::sqrt(-2.0 * std::log(NextUniform(state)));
    const double angle = kTwoPi * NextUniform(state);
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < elements) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

absl::StatusOr<CodecBenchmark> MeasureCodec(const WireCodec& codec, size_t elements, int repeats,
                                            const std::function<double()>& seconds) {
  if (elements == 0 || repeats < 1) {
    return absl::InvalidArgumentError(
        "a codec benchmark needs at least one element and one repeat");
  }
  const std::vector<float> values = GaussianValues(elements, /*seed=*/1);
  Bench bench(codec, elements);
  std::vector<double> copying, encoding, decoding;
  // Repeat -1 is not counted: it touches the pages and wakes the caches.
  for (int repeat = -1; repeat < repeats; ++repeat) {
    const double start = seconds();
    bench.Copy(values);
    const double copied = seconds();
    absl::Status status = bench.Encode(values);
    if (!status.ok()) return status;
    const double encoded = seconds();
    status = bench.Decode();
    if (!status.ok()) return status;
    const double decoded = seconds();
    if (repeat < 0) continue;
    copying.push_back(copied - start);
    encoding.push_back(encoded - copied);
    decoding.push_back(decoded - encoded);
  }
  const double gigabytes = static_cast<double>(elements) * sizeof(float) * 1e-9;
  CodecBenchmark result;
  result.codec = codec.name();
  result.elements = elements;
  result.encode_gb_per_s = gigabytes / Median(std::move(encoding));
  result.decode_gb_per_s = gigabytes / Median(std::move(decoding));
  result.memcpy_gb_per_s = gigabytes / Median(std::move(copying));
  result.bytes = bench.wire_bytes();
  result.relative_error = RelativeError(values, bench.decoded());
  return result;
}

}  // namespace atolld
