// The interface of a model for training and for generating text: a function of flat parameters and
// tokens.
//
// The tensors of a model are views into one flat fp32 vector, laid out by its manifest. Copying
// parameters in or out is therefore one memcpy, and a model can be bound to memory that it does not
// own (a mapped slot). A Model holds no trained parameters, so the same Model can be used with the
// worker's own parameters and with those of the replica. May throw libtorch's exceptions. Used by
// one thread at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "atoll/v1/run.pb.h"
#include "worker/base/trained_tensors.h"
#include "worker/model/layers.h"

namespace atolld {

// The value that libtorch's cross-entropy ignores by default.
inline constexpr int64_t kIgnoredTarget = -100;

class Model {
 public:
  virtual ~Model() = default;

  const v1::Manifest& manifest() const { return manifest_; }

  // Returns views into `flat` (fp32, manifest().elements() values), for Loss and Logits.
  ModelParameters Bind(const at::Tensor& flat) const;

  // Does the same as Bind for training. The gradient of each view is stored at the same place in
  // `gradient`, a flat tensor of the same size. Backward passes add to it; the caller must set it
  // to zero.
  ModelParameters BindTrainable(const at::Tensor& flat, const at::Tensor& gradient) const;

  // Does the same where only these tensors are trained. `gradient` has their values alone; no
  // gradient is computed for the other views.
  ModelParameters BindTrainable(const at::Tensor& flat, const at::Tensor& gradient,
                                const TrainedTensors& trained) const;

  // Returns the same model for parameters on `device`. The base model of adapters, which the model
  // holds itself, is copied to that device, or is shared with this model if it is already there.
  // The dropout of the new model uses `generator`, or libtorch's default generator of the device if
  // that is undefined. Both models may be used at the same time.
  virtual std::unique_ptr<Model> CopyTo(const at::Device& device,
                                        const at::Generator& generator) const = 0;

  // Sets `flat` to the initial parameters of a run with this seed.
  virtual void Initialise(const at::Tensor& flat, uint64_t seed) const = 0;

  // Returns the logits [batch * tokens, vocabulary] of int64 `tokens` [batch, tokens]. The number
  // of tokens must not exceed the context.
  virtual at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                            double dropout) const = 0;

  // Returns the mean cross-entropy in nats over batch x tokens. `targets` has the shape of
  // `tokens`. Targets equal to kIgnoredTarget do not count; at least one must count. While
  // gradients are recorded, the losses of routers are added if the spec asks for them.
  virtual at::Tensor Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                          const at::Tensor& targets, double dropout) const;

 protected:
  // If `checkpointing` is true, the activations of blocks are not kept but computed again in the
  // backward pass.
  explicit Model(v1::Manifest manifest, bool checkpointing = false)
      : manifest_(std::move(manifest)), checkpointing_(checkpointing) {}

  // Returns the mean cross-entropy of logits [rows, vocabulary], as Loss does.
  static at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& targets);

  const at::Generator& generator() const { return generator_; }
  void DrawFrom(const at::Generator& generator) { generator_ = generator; }

  // Returns block(x), with activation checkpointing if it is on. `block` must own everything to
  // which it refers.
  at::Tensor Run(const std::function<at::Tensor(const at::Tensor&)>& block,
                 const at::Tensor& x) const;

 private:
  const v1::Manifest manifest_;
  const bool checkpointing_;
  at::Generator generator_;  // The generator of dropout, which CopyTo sets.
};

}  // namespace atolld
