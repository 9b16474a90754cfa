// The manifest of a model: the names, shapes and places of its tensors in the one flat parameter
// vector.
//
// The names and the order of tensors are those of nanoGPT for "gpt" and "gpt2" (matrices are [out,
// in]), and those of Hugging Face for "llama", so that other programs can read the files that Atoll
// writes. If the token embedding is also the output head, it appears once.
//
// Personal tensors (ModelSpec.local) are trained but not exchanged. They come after all other
// tensors in the flat vector, so that peers exchange its first part. The manifest of a run covers
// only that part. Pure. May be called from any thread.
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

// The largest number of layers that a ModelSpec may have. It is far above that of any model that
// one machine can train.
inline constexpr uint32_t kMaxLayers = 1024;

// Fails with INVALID_ARGUMENT if a field exceeds the limits in run.proto; the message names the
// field.
absl::Status CheckModelSpec(const v1::ModelSpec& model);

// Returns the manifest of the tensors that are trained. If the spec has adapters, these are only
// the adapters' tensors: A and then B of each adapter, or A and then B of all its slices. Tensors
// are in the model's order, except that personal tensors come last. Fails with INVALID_ARGUMENT if
// CheckModelSpec or PlacePersonal does.
absl::StatusOr<v1::Manifest> MakeManifest(const v1::ModelSpec& model);

// Returns true if `name` matches `pattern`, in which "*" matches any number of characters.
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Pairs of two names of the same tensor. The second is the name in the manifest, as in
// ("lm_head.weight", "model.embed_tokens.weight").
using TensorAliases = std::vector<std::pair<std::string, std::string>>;

// Moves the tensors that match one of `patterns` to the end of the manifest. Fails with
// INVALID_ARGUMENT if a pattern matches no tensor (the message names similar tensors), if all
// tensors match, or if a pattern matches only one of the two names of a tensor.
absl::Status PlacePersonal(absl::Span<const std::string> patterns, const TensorAliases& aliases,
                           v1::Manifest* manifest);

// SharedPart returns the tensors of `whole` that peers exchange, and PersonalPart the personal
// tensors. Order and offsets are those of `whole`.
v1::Manifest SharedPart(const v1::Manifest& whole, absl::Span<const std::string> patterns);
v1::Manifest PersonalPart(const v1::Manifest& whole, absl::Span<const std::string> patterns);

// Returns ModelSpec.local, the patterns of the names of personal tensors.
std::vector<std::string> PersonalPatterns(const v1::ModelSpec& model);

// Returns true if the run has adapters for this tensor of the base model.
bool IsAdapted(const v1::ModelSpec& model, const v1::Tensor& tensor);

// Returns the number of slices of a valid model's adapters; 1 if they are whole.
uint32_t SlicesOf(const v1::ModelSpec& model);

// Returns the number of values of one tensor: the product of its dimensions.
uint64_t TensorElements(const v1::Tensor& tensor);

}  // namespace atolld
