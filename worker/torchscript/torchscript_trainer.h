// Trains a TorchScript file as it is: what its forward(batch...) gives is the loss.
//
// The law: the file says everything. Its trainable parameters, in their named order, are the
// manifest; what is frozen in it - parameters that need no gradient, and buffers, put back after
// each step - stays as the file has it, and so is the same at every peer whose file has the run's
// digest. One thread at a time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "atoll/v1/run.pb.h"
#include "worker/data/arrays.h"
#include "worker/torchscript/array_corpus.h"
#include "worker/training/trainer.h"

namespace atolld {

// The trainer of spec.model().file(). `arrays` outlives it: each is an argument of forward, by name
// where every argument has one of that name, else by order. FAILED_PRECONDITION: the file's digest
// is not the run's. INVALID_ARGUMENT: the file is no TorchScript, has nothing to train in fp32,
// takes other arguments, or forward gives no scalar; one line says which.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchScriptTrainer(const v1::RunSpec& spec,
                                                                const Arrays& arrays);

// The same, with data that is the trainer's to keep.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchScriptTrainer(
    const v1::RunSpec& spec, std::shared_ptr<const ArrayCorpus> corpus);

}  // namespace atolld
