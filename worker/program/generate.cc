#include "worker/program/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compression/base/status_macros.h"
#include "worker/model/architectures.h"
#include "worker/model/torch_edge.h"

namespace atolld {
namespace {

absl::Status Check(const v1::Manifest& manifest, const v1::ModelSpec& model,
                   absl::Span<const float> parameters, const Tokenizer& tokenizer,
                   const GenerateOptions& options) {
  if (parameters.size() != manifest.elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "generate: ", parameters.size(), " parameters; the model has ", manifest.elements()));
  }
  if (model.vocabulary() < tokenizer.vocabulary()) {
    return absl::InvalidArgumentError(absl::StrCat("generate: the model's vocabulary has ",
                                                   model.vocabulary(), " tokens, the tokenizer's ",
                                                   tokenizer.vocabulary()));
  }
  if (!(options.temperature >= 0 && std::isfinite(options.temperature))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--temperature is ", options.temperature, "; it must be 0 or more"));
  }
  if (!(options.top_p >= 0 && options.top_p <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--top-p is ", options.top_p, "; it must be 0-1"));
  }
  return absl::OkStatus();
}

}  // namespace

size_t SampleIndex(absl::Span<const float> logits, double temperature, uint64_t top_k, double u,
                   double top_p) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto likelier = [&](size_t a, size_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  std::sort(order.begin(), order.end(), likelier);
  if (temperature == 0) return order[0];
  if (top_k > 0 && top_k < order.size()) order.resize(top_k);
  std::vector<double> weights;
  double total = 0;
  for (const size_t index : order) {
    weights.push_back(
        std::exp(static_cast<double>(logits[index] - logits[order[0]]) / temperature));
    total += weights.back();
  }
  if (top_p < 1) {
    const double wanted = top_p * total;
    size_t count = 0;
    for (total = 0; count == 0 || (count < order.size() && total < wanted); ++count) {
      total += weights[count];
    }
    order.resize(count);
  }
  double left = u * total;
  for (size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();  // u * total was rounded up to the total
}

absl::Status Generate(const v1::ModelSpec& spec, absl::Span<const float> parameters,
                      const Tokenizer& tokenizer, const GenerateOptions& options,
                      const std::function<bool(uint32_t)>& sink) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, MakeModel(spec));
  RETURN_IF_ERROR(Check(model->manifest(), spec, parameters, tokenizer, options));
  const std::string prompt = options.prompt.empty() ? "\n" : options.prompt;
  std::vector<uint32_t> encoded;
  RETURN_IF_ERROR(
      Annotate(tokenizer.NewEncoder()->Encode(prompt, &encoded), "generate: the prompt"));
  if (encoded.empty()) {
    return absl::InvalidArgumentError("generate: the prompt has no tokens; give another --prompt");
  }
  std::vector<int64_t> tokens(encoded.begin(), encoded.end());
  std::mt19937_64 random(options.seed);
  return CatchTorch(
      absl::StrCat("generate, context ", spec.context(), ", ", parameters.size(), " parameters"),
      [&] {
        const at::NoGradGuard no_grad;
        const ModelParameters bound =
            model->Bind(at::from_blob(const_cast<float*>(parameters.data()),
                                      {static_cast<int64_t>(parameters.size())}, at::kFloat));
        for (uint64_t i = 0; i < options.tokens; ++i) {
          const size_t length = std::min<size_t>(tokens.size(), spec.context());
          const at::Tensor input = at::from_blob(tokens.data() + tokens.size() - length,
                                                 {1, static_cast<int64_t>(length)}, at::kLong);
          const at::Tensor last =
              model->Logits(bound, input, 0)[static_cast<int64_t>(length) - 1].contiguous();
          const double u = static_cast<double>(random() >> 11) * 0x1p-53;
          const size_t next =
              SampleIndex(absl::MakeConstSpan(last.data_ptr<float>(), spec.vocabulary()),
                          options.temperature, options.top_k, u, options.top_p);
          tokens.push_back(static_cast<int64_t>(next));
          if (!sink(static_cast<uint32_t>(next))) return;
        }
      });
}

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    if (!stop.empty()) stops_.push_back(stop);
  }
}

std::string StopStrings::Take(uint8_t byte) {
  held_ += static_cast<char>(byte);
  size_t keep = 0;  // the longest end of held_ that a stop may begin with
  for (const std::string& stop : stops_) {
    if (absl::EndsWith(held_, stop)) {
      done_ = true;
      held_.resize(held_.size() - stop.size());
      return Rest();
    }
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (absl::EndsWith(held_, absl::string_view(stop).substr(0, length))) keep = length;
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopStrings::Rest() { return std::exchange(held_, ""); }

}  // namespace atolld
