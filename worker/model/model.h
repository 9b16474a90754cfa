// A model as the trainer and the generator see it: a function of flat parameters and tokens.
//
// The tensors of a model are views into one flat fp32 vector, laid out by its manifest, so taking
// parameters in or handing them out is one memcpy, and a model can be bound to memory that it does
// not own (a mapped slot). A Model holds no parameters that are trained: the same one serves the
// worker's own and the replica's. What libtorch throws passes through. One thread at a time.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "atoll/v1/run.pb.h"
#include "worker/model/layers.h"

namespace atolld {

inline constexpr int64_t kIgnoredTarget = -100;  // libtorch's own of a cross-entropy

class Model {
 public:
  virtual ~Model() = default;

  const v1::Manifest& manifest() const { return manifest_; }

  // Views into `flat` (fp32, manifest().elements() values), for Loss and Logits.
  ModelParameters Bind(const at::Tensor& flat) const;

  // As Bind, but each view collects its gradient into the same place of `gradient`, a flat tensor
  // of equal size. Backward passes add to it; the caller zeroes it.
  ModelParameters BindTrainable(const at::Tensor& flat, const at::Tensor& gradient) const;

  // The same model for parameters on `device`: what it holds itself, a base beneath adapters, lies
  // there, and is shared with this one where that is the same device. Its dropout draws from
  // `generator`; undefined: from libtorch's own of the device. Both may be used at once.
  virtual std::unique_ptr<Model> CopyTo(const at::Device& device,
                                        const at::Generator& generator) const = 0;

  // Fills `flat` with the parameters that a run of this seed begins with.
  virtual void Initialise(const at::Tensor& flat, uint64_t seed) const = 0;

  // Logits [batch * tokens, vocabulary] of int64 `tokens` [batch, tokens], tokens <= context.
  virtual at::Tensor Logits(const ModelParameters& parameters, const at::Tensor& tokens,
                            double dropout) const = 0;

  // Mean cross-entropy in nats over batch x tokens; `targets` as `tokens`. Those that are
  // kIgnoredTarget do not count; there must be one that does.
  virtual at::Tensor Loss(const ModelParameters& parameters, const at::Tensor& tokens,
                          const at::Tensor& targets, double dropout) const;

 protected:
  // With `checkpointing` the activations of blocks are computed again in the backward pass instead
  // of kept.
  explicit Model(v1::Manifest manifest, bool checkpointing = false)
      : manifest_(std::move(manifest)), checkpointing_(checkpointing) {}

  const at::Generator& generator() const { return generator_; }
  void DrawFrom(const at::Generator& generator) { generator_ = generator; }

  // block(x), by way of a checkpoint where that is wanted; `block` owns what it refers to.
  at::Tensor Run(const std::function<at::Tensor(const at::Tensor&)>& block,
                 const at::Tensor& x) const;

 private:
  const v1::Manifest manifest_;
  const bool checkpointing_;
  at::Generator generator_;  // of dropout, since CopyTo
};

}  // namespace atolld
