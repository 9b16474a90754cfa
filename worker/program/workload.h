// What a run's kind of model and data comes to: a trainer, and what it reads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "atoll/v1/worker.pb.h"
#include "worker/data/tokenizer.h"
#include "worker/training/trainer.h"

namespace atolld {

struct Workload {
  std::shared_ptr<const void> data;  // outlives the trainer, which reads it
  std::unique_ptr<Trainer> trainer;
  std::string device;       // that the trainer computes on; of several, with commas between
  std::string data_digest;  // 32 bytes
  uint64_t train_tokens = 0;
  uint64_t validation_tokens = 0;
  const Tokenizer* tokenizer = nullptr;  // of `data`; null: it has none
};

// What Configure asks for, of text on `devices`. INVALID_ARGUMENT: a kind that is not known, or one
// that cannot train on several. FAILED_PRECONDITION: the data here is not the run's. Otherwise what
// the data's and the trainer's own Open and Make say.
absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices);

}  // namespace atolld
