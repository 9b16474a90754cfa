// Trains a model that is given as a TorchScript file. The value that its forward(batch...) returns
// is the loss.
//
// The law: the file defines everything. Its trainable parameters are the tensors of the manifest,
// in the order in which the file names them. Parameters that need no gradient, and buffers, which
// are restored after each step, keep the values in the file, and are therefore the same at every
// peer whose file has the run's digest. Used by one thread at a time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/data/arrays.h"
#include "worker/torchscript/array_corpus.h"
#include "worker/training/trainer.h"

namespace atolld {

// Makes the trainer of spec.model().file(). `arrays` must outlive it. Each array is an argument of
// forward. Arrays are assigned to arguments by name if every argument has an array of the same
// name, and otherwise by order. Fails with FAILED_PRECONDITION if the file does not have the run's
// digest, and with INVALID_ARGUMENT if the file is not TorchScript, has no trainable fp32
// parameters, takes other arguments, or its forward does not return a scalar; the message is one
// line.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchScriptTrainer(const v1::RunSpec& spec,
                                                                const Arrays& arrays);

// Does the same with data of which the trainer shares the ownership.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchScriptTrainer(
    const v1::RunSpec& spec, std::shared_ptr<const ArrayCorpus> corpus);

}  // namespace atolld
