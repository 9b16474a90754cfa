// fp8_codecs: trains a small GPT as the peers of a run do, with one codec for updates and means.
// fp8_codecs.py runs it.
//
//   fp8_codecs --text FILE --codec NAME --seed N [--compare NAME,NAME] [--peers N] [--rounds N]
//     [--steps N] [--layers N] [--width N] [--learning-rate R] [--feedback true]
//
// A codec is one of Atoll's ("fp32", "int8") or a format and a block size ("e4m3@256"; see
// level_codec.h). The model, the data, the inner optimiser, the sum, Atoll's codecs and the outer
// rule are the ones that the programs use. All peers are in one process and on one thread, so the
// same arguments give the same bits. Every round has the updates of all peers, with equal weights.
//
// Prints one JSON object with the validation loss at the end, in nats a byte, and the size of an
// update, in bits a value. With --compare it also says how much of this run's updates and means
// each of the named codecs would have lost.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "compression/codec.h"
#include "compression/error_feedback.h"
#include "compression/zstd_frame.h"
#include "optimizer/outer_rule.h"
#include "tests/bench/level_codec.h"
#include "worker/base/flags.h"
#include "worker/data/training_data.h"
#include "worker/training/math_library.h"
#include "worker/training/token_corpus.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

constexpr size_t kChunkElements = 16384;  // As in configs/quickstart.toml.
constexpr size_t kErrorBlock = 256;       // The size of the blocks of which the worst is reported.

// Returns a codec that is never destroyed.
absl::StatusOr<const Codec*> CodecOf(absl::string_view name) {
  if (!absl::StrContains(name, "@")) return FindCodec(name);
  ASSIGN_OR_RETURN(std::unique_ptr<LevelCodec> codec, LevelCodec::Make(name));
  return codec.release();
}

// The encoded chunks of a vector.
using Chunks = std::vector<std::vector<uint8_t>>;

absl::StatusOr<Chunks> EncodeAll(const Codec& codec, absl::Span<const float> values) {
  Chunks chunks;
  for (size_t begin = 0; begin < values.size(); begin += kChunkElements) {
    const absl::Span<const float> part = values.subspan(begin, kChunkElements);
    std::vector<uint8_t>& bytes = chunks.emplace_back(codec.MaxEncodedBytes(part.size()));
    ASSIGN_OR_RETURN(const size_t used, codec.Encode(part, absl::MakeSpan(bytes)));
    bytes.resize(used);
  }
  return chunks;
}

absl::Status DecodeAll(const Codec& codec, const Chunks& chunks, absl::Span<float> values) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    RETURN_IF_ERROR(codec.Decode(chunks[i], values.subspan(i * kChunkElements, kChunkElements)));
  }
  return absl::OkStatus();
}

// Adds up what a codec loses of several vectors.
class Loss {
 public:
  absl::Status Add(const Codec& codec, absl::Span<const float> values) {
    ASSIGN_OR_RETURN(const Chunks chunks, EncodeAll(codec, values));
    std::vector<float> decoded(values.size());
    RETURN_IF_ERROR(DecodeAll(codec, chunks, absl::MakeSpan(decoded)));
    for (const std::vector<uint8_t>& chunk : chunks) {
      ASSIGN_OR_RETURN(const std::string frame, ZstdCompress(chunk));
      bytes_ += static_cast<double>(chunk.size());
      zstd_bytes_ += static_cast<double>(frame.size());
    }
    for (size_t begin = 0; begin < values.size(); begin += kErrorBlock) {
      AddBlock(values.subspan(begin, kErrorBlock),
               absl::MakeConstSpan(decoded).subspan(begin, kErrorBlock));
    }
    return absl::OkStatus();
  }

  std::string Json() const {
    return absl::StrFormat(
        "{\"error\": %.6g, \"worst_block\": %.6g, \"bias\": %.3g, \"zeroed\": %.4g, \"bits\": "
        "%.5g, \"zstd_bits\": %.5g}",
        std::sqrt(lost_ / squares_), worst_, bias_ / magnitudes_, zeroed_ / values_,
        8 * bytes_ / all_values_, 8 * zstd_bytes_ / all_values_);
  }

 private:
  void AddBlock(absl::Span<const float> values, absl::Span<const float> decoded) {
    double lost = 0, squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i], error = decoded[i] - value;
      lost += error * error;
      squares += value * value;
      bias_ += value < 0 ? -error : error;
      magnitudes_ += std::fabs(value);
      values_ += value != 0 ? 1 : 0;
      zeroed_ += value != 0 && decoded[i] == 0 ? 1 : 0;
    }
    all_values_ += static_cast<double>(values.size());
    lost_ += lost;
    squares_ += squares;
    if (squares > 0) worst_ = std::max(worst_, std::sqrt(lost / squares));
  }

  double bytes_ = 0, zstd_bytes_ = 0, all_values_ = 0;
  double lost_ = 0, squares_ = 0;
  double worst_ = 0;                  // The largest relative error of a block.
  double bias_ = 0, magnitudes_ = 0;  // The growth of all magnitudes, and their sum.
  double values_ = 0, zeroed_ = 0;    // Values other than 0, and how many of them become 0.
};

struct Compared {
  const Codec* codec;
  Loss updates, means;
};

struct Settings {
  uint64_t peers = 0, rounds = 0, steps = 0;
  bool feedback = false;
  v1::RunSpec spec;
};

absl::StatusOr<Settings> SettingsOf(const Flags& flags) {
  Settings settings;
  ASSIGN_OR_RETURN(settings.peers, flags.Count("peers", 3));
  ASSIGN_OR_RETURN(settings.rounds, flags.Count("rounds", 40));
  ASSIGN_OR_RETURN(settings.steps, flags.Count("steps", 20));
  ASSIGN_OR_RETURN(settings.feedback, flags.Truth("feedback"));
  ASSIGN_OR_RETURN(const uint64_t seed, flags.Count("seed"));
  ASSIGN_OR_RETURN(const uint64_t layers, flags.Count("layers", 3));
  ASSIGN_OR_RETURN(const uint64_t width, flags.Count("width", 64));
  ASSIGN_OR_RETURN(const double rate, flags.Number("learning-rate", 2e-3));
  v1::RunSpec& spec = settings.spec;
  spec.set_run_id("fp8");
  spec.set_numerics(1);
  spec.set_seed(seed);
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_kind("gpt");
  model.set_layers(static_cast<uint32_t>(layers));
  model.set_heads(4);
  model.set_width(static_cast<uint32_t>(width));
  model.set_context(64);
  model.set_vocabulary(256);
  spec.mutable_data()->set_kind("text");
  spec.mutable_data()->set_validation_fraction(0.1);
  v1::InnerSpec& inner = *spec.mutable_inner();
  inner.set_optimizer("adamw");
  inner.set_steps(static_cast<uint32_t>(settings.steps));
  inner.set_batch(12);
  inner.set_learning_rate(rate);
  inner.set_min_learning_rate(rate / 10);
  inner.set_warmup_steps(50);
  inner.set_decay_steps(settings.rounds * settings.steps);
  inner.set_beta1(0.9);
  inner.set_beta2(0.99);
  inner.set_weight_decay(0.1);
  inner.set_gradient_clip(1.0);
  spec.mutable_evaluation()->set_tokens(262144);
  return settings;
}

// A run with all its peers in this process.
class Run {
 public:
  Run(const Settings& settings, const Codec& codec, std::vector<Compared>& compared)
      : settings_(settings), codec_(codec), compared_(compared) {}

  absl::Status Prepare(const std::string& text) {
    const v1::RunSpec& spec = settings_.spec;
    ASSIGN_OR_RETURN(std::shared_ptr<const TrainingData> data,
                     TrainingData::Open(spec.data(), text, spec.model().vocabulary()));
    ASSIGN_OR_RETURN(std::shared_ptr<const TokenCorpus> corpus, TokenCorpus::Make(spec, data));
    for (uint64_t peer = 0; peer < settings_.peers; ++peer) {
      ASSIGN_OR_RETURN(trainers_.emplace_back(), Trainer::Make(spec, corpus, {"cpu"}));
    }
    RETURN_IF_ERROR(trainers_[0]->Initialise());
    const absl::Span<const float> initial = trainers_[0]->parameters();
    theta_.assign(initial.begin(), initial.end());
    momentum_.assign(theta_.size(), 0.0f);
    residuals_.assign(settings_.peers, std::vector<float>(theta_.size(), 0.0f));
    ASSIGN_OR_RETURN(rule_, FindOuterRule("nesterov"));
    OuterSettings outer;
    outer.learning_rate = 0.7f;
    outer.momentum = 0.9f;
    ASSIGN_OR_RETURN(scalars_, rule_->Scalars(outer));
    return absl::OkStatus();
  }

  absl::Status Round(uint64_t round) {
    std::vector<Chunks> updates;
    for (uint64_t peer = 0; peer < settings_.peers; ++peer) {
      ASSIGN_OR_RETURN(updates.emplace_back(), UpdateOf(round, peer));
    }
    std::vector<float> mean(theta_.size());
    const float factor = 1 / static_cast<float>(settings_.peers);
    for (size_t i = 0; i < updates[0].size(); ++i) {
      std::vector<WeightedChunk> terms;
      for (const Chunks& update : updates) terms.push_back({update[i], 1.0f});
      RETURN_IF_ERROR(codec_.DecodeSum(
          terms, factor, absl::MakeSpan(mean).subspan(i * kChunkElements, kChunkElements)));
    }
    for (Compared& one : compared_) RETURN_IF_ERROR(one.means.Add(*one.codec, mean));
    ASSIGN_OR_RETURN(const Chunks payload, EncodeAll(codec_, mean));
    RETURN_IF_ERROR(DecodeAll(codec_, payload, absl::MakeSpan(mean)));
    const absl::Span<float> buffers[] = {absl::MakeSpan(momentum_)};
    return rule_->Step(scalars_, mean, absl::MakeSpan(theta_), buffers);
  }

  absl::StatusOr<double> ValidationLoss() {
    ASSIGN_OR_RETURN(const EvaluationSum sum,
                     trainers_[0]->Evaluate(theta_, 0, 1, [] { return false; }));
    return sum.loss_sum / static_cast<double>(sum.tokens);
  }

  size_t parameters() const { return theta_.size(); }

 private:
  // Trains one peer, starting from theta, and returns the chunks that it would send.
  absl::StatusOr<Chunks> UpdateOf(uint64_t round, uint64_t peer) {
    Trainer& trainer = *trainers_[peer];
    std::copy(theta_.begin(), theta_.end(), trainer.parameters().begin());
    RETURN_IF_ERROR(trainer.PushParameters());
    const uint64_t batch = settings_.spec.inner().batch();
    for (uint64_t i = 0; i < settings_.steps; ++i) {
      const uint64_t step = round * settings_.steps + i;
      std::vector<uint64_t> samples;
      for (uint64_t k = 0; k < batch; ++k) {
        samples.push_back((step * settings_.peers + peer) * batch + k);
      }
      RETURN_IF_ERROR(trainer.Step(step, samples).status());
    }
    RETURN_IF_ERROR(trainer.FetchParameters());
    std::vector<float> update(theta_.size());
    for (size_t i = 0; i < update.size(); ++i) update[i] = theta_[i] - trainer.parameters()[i];
    for (Compared& one : compared_) RETURN_IF_ERROR(one.updates.Add(*one.codec, update));
    if (!settings_.feedback) return EncodeAll(codec_, update);
    std::vector<float>& residual = residuals_[peer];
    RETURN_IF_ERROR(AddResidual(1, residual, absl::MakeSpan(update)));
    ASSIGN_OR_RETURN(Chunks sent, EncodeAll(codec_, update));
    RETURN_IF_ERROR(DecodeAll(codec_, sent, absl::MakeSpan(residual)));
    for (size_t i = 0; i < update.size(); ++i) residual[i] = update[i] - residual[i];
    return sent;
  }

  const Settings& settings_;
  const Codec& codec_;
  std::vector<Compared>& compared_;
  std::vector<std::unique_ptr<Trainer>> trainers_;  // One for each peer.
  const OuterRule* rule_ = nullptr;
  OuterScalars scalars_;
  std::vector<float> theta_, momentum_;
  std::vector<std::vector<float>> residuals_;  // One for each peer.
};

// Fails if the LevelCodec of int8's format does not decode to the same bits as Atoll's int8.
absl::Status CheckLevelCodec() {
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * i))) * 1e-3f;
  }
  std::vector<std::vector<float>> decoded(2, std::vector<float>(values.size()));
  for (const bool level : {false, true}) {
    ASSIGN_OR_RETURN(const Codec* const codec, CodecOf(level ? "int8@256" : "int8"));
    ASSIGN_OR_RETURN(const Chunks chunks, EncodeAll(*codec, values));
    RETURN_IF_ERROR(DecodeAll(*codec, chunks, absl::MakeSpan(decoded[level ? 1 : 0])));
  }
  return decoded[0] == decoded[1] ? absl::OkStatus()
                                  : absl::InternalError("int8@256 differs from int8");
}

absl::Status Main(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(
      const Flags flags,
      Flags::Parse(arguments, {"text", "codec", "seed", "compare", "peers", "rounds", "steps",
                               "layers", "width", "learning-rate", "feedback"}));
  ASSIGN_OR_RETURN(const std::string text, flags.Text("text"));
  ASSIGN_OR_RETURN(const std::string name, flags.Text("codec"));
  ASSIGN_OR_RETURN(const std::string names, flags.Text("compare", ""));
  ASSIGN_OR_RETURN(const Settings settings, SettingsOf(flags));
  ASSIGN_OR_RETURN(const Codec* const codec, CodecOf(name));
  RETURN_IF_ERROR(CheckLevelCodec());
  std::vector<Compared> compared;
  for (const absl::string_view one : absl::StrSplit(names, ',', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(compared.emplace_back().codec, CodecOf(one));
  }
  SetMathThreads(1);
  Run run(settings, *codec, compared);
  RETURN_IF_ERROR(run.Prepare(text));
  for (uint64_t round = 0; round < settings.rounds; ++round) {
    RETURN_IF_ERROR(Annotate(run.Round(round), absl::StrCat("round ", round)));
    std::cerr << "round " << round + 1 << " of " << settings.rounds << std::endl;
  }
  ASSIGN_OR_RETURN(const double loss, run.ValidationLoss());
  std::vector<std::string> lines;
  for (const Compared& one : compared) {
    lines.push_back(absl::StrFormat("{\"codec\": \"%s\", \"updates\": %s, \"means\": %s}",
                                    one.codec->name(), one.updates.Json(), one.means.Json()));
  }
  const double bits = 8 * static_cast<double>(codec->MaxEncodedBytes(run.parameters())) /
                      static_cast<double>(run.parameters());
  std::cout << absl::StrFormat(
      "{\"codec\": \"%s\", \"parameters\": %d, \"loss\": %.6f, \"bits\": %.4f, \"compared\": "
      "[%s]}\n",
      name, run.parameters(), loss, bits, absl::StrJoin(lines, ", "));
  return absl::OkStatus();
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) {
  atolld::ChooseMathKernel(argv);
  const absl::Status status = atolld::Main(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::cerr << "fp8_codecs: " << status.message() << "\n";
  return 1;
}
