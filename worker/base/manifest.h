// The manifest of a model: the names, shapes and places of its tensors in the one flat parameter
// vector.
//
// Names and order are nanoGPT's for "gpt" and "gpt2" (matrices are [out, in]), and Hugging Face's
// for "llama", so that what Atoll writes is read elsewhere. Where the token embedding is the output
// head too, it appears once.
//
// Personal tensors (ModelSpec.local) are trained and stay where they are. They lie behind all
// others, so that what peers exchange is the first part of one flat vector; the manifest of a run
// is of that part alone. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "atoll/v1/run.pb.h"

namespace atolld {

// Far above any model that one machine trains.
inline constexpr uint32_t kMaxLayers = 1024;

// INVALID_ARGUMENT names the field that is out of the limits written in run.proto.
absl::Status CheckModelSpec(const v1::ModelSpec& model);

// What is trained: the adapters alone, A then B of each, where the spec has some. Tensors are in
// the model's order whatever is personal. INVALID_ARGUMENT as CheckModelSpec and PlacePersonal.
absl::StatusOr<v1::Manifest> MakeManifest(const v1::ModelSpec& model);

// Whether `name` is of the form of `pattern`, in which "*" stands for any characters, or none.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Of names that stand for one tensor, the other one and the manifest's: ("lm_head.weight",
// "model.embed_tokens.weight").
using TensorAliases = std::vector<std::pair<std::string, std::string>>;

// Moves the tensors that match one of `patterns` behind all others. INVALID_ARGUMENT: a pattern
// matches nothing (named with its neighbours), all tensors match, or only one of the names of a
// tensor does.
absl::Status PlacePersonal(absl::Span<const std::string> patterns, const TensorAliases& aliases,
                           v1::Manifest* manifest);

// The tensors of `whole` that peers exchange, in the order in which they lie, and the personal
// ones; offsets are as in `whole`.
v1::Manifest SharedPart(const v1::Manifest& whole, absl::Span<const std::string> patterns);
v1::Manifest PersonalPart(const v1::Manifest& whole, absl::Span<const std::string> patterns);

// ModelSpec.local.
std::vector<std::string> PersonalPatterns(const v1::ModelSpec& model);

// Whether the run's adapters stand beside this tensor of the base.
bool IsAdapted(const v1::ModelSpec& model, const v1::Tensor& tensor);

// The values of one tensor: the product of its dimensions.
uint64_t TensorElements(const v1::Tensor& tensor);

}  // namespace atolld
